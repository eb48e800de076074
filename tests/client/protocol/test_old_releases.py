"""API versions of releases before 0.10."""

from __future__ import annotations

import pytest

from kseg.client.config import ClientConfig
from kseg.client.errors import ConfigError
from kseg.client.protocol.old_releases import parse_release, versions_before_negotiation
from kseg.client.protocol.registry import API_BY_KEY


class TestTables:
    @pytest.mark.rule(38)
    def test_each_release_adds_to_the_one_before(self):
        names = {
            release: {API_BY_KEY[key].name: versions for key, versions in versions_before_negotiation(release).items()}
            for release in ("0.8.0", "0.8.1", "0.8.2", "0.9.0")
        }
        assert "OffsetCommit" not in names["0.8.0"]
        assert names["0.8.1"]["OffsetCommit"] == (0, 0)
        assert names["0.8.2"]["OffsetCommit"] == (0, 1)
        assert names["0.9.0"]["OffsetCommit"] == (0, 2)
        assert names["0.9.0"]["ListOffsets"] == (0, 0)
        assert "JoinGroup" not in names["0.8.2"]
        assert "ApiVersions" not in names["0.9.0"]
        assert set(names["0.8.0"]) < set(names["0.8.1"]) < set(names["0.8.2"]) < set(names["0.9.0"])

    @pytest.mark.parametrize(
        ("text", "release"), [("0.9.0.1", "0.9.0"), ("0.9.0", "0.9.0"), ("0.9", "0.9.0"), ("0.8.2.2", "0.8.2")]
    )
    def test_a_release_is_named_as_people_write_it(self, text: str, release: str):
        assert parse_release(text) == release

    @pytest.mark.parametrize("text", ["0.10.2", "1.1.1", "0.7.2", "newest", "", "0.90"])
    def test_a_release_that_can_be_asked_has_no_table(self, text: str):
        with pytest.raises(ConfigError, match=r"broker\.version\.fallback.*brokers from 0\.10 on report"):
            ClientConfig.from_properties(
                {"bootstrap.servers": "a:1", "broker.version.fallback": text}, client_id="kseg-tests"
            )
