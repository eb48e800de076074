"""Schemas by Apicurio's own ids, of which there are two kinds.

A global id is that of one version of one artifact; versions with the same content have one content id. The API in
Confluent's form (`/apis/ccompat/v7`) has content ids, or, in a mode that Apicurio calls legacy, global ids. Where it is
known which kind an id is of, it is asked of Apicurio's own API, which the same server has beside it:

    GET /apis/registry/v3/search/versions?globalId=7       which artifact, of which type; none: there is no such id
        /apis/registry/v2/search/artifacts?globalId=7      the same of Apicurio 2
    GET /apis/registry/v3/ids/globalIds/7                  the schema's text
    GET /apis/registry/v3/ids/globalIds/7/references       by name, the artifacts that it uses, and their versions

Content ids have the same requests with `contentId` and `contentIds`.

https://www.apicur.io/registry/docs/apicurio-registry/3.0.x/assets-attachments/registry-rest-api.htm
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kseg.client.registry.errors import SchemaNotFound, SchemaRegistryError
from kseg.client.registry.schemas import SCHEMA_TYPES, ApicurioId, Reference, Schema

_CONFLUENTS: Final = "/apis/ccompat/"
#: Versions of the API: where global ids are searched, what is found, and the field of its type.
_APIS: Final = (
    ("/apis/registry/v3", "/search/versions", "versions", "artifactType"),
    ("/apis/registry/v2", "/search/artifacts", "artifacts", "type"),
)
_DEFAULT_GROUP: Final = (None, "", "default")

Ask = Callable[[str], tuple[Any, bytes]]
"""Requests a path below the server's base; the answer as a document, and as it is. Raises SchemaRegistryError."""


def base_of(url: str) -> str | None:
    """The URL before the path of the API in Confluent's form; None if the URL is of another registry."""
    base, found, _ = url.partition(_CONFLUENTS)
    return base if found else None


def by_own_id(own: ApicurioId, ask: Ask) -> Schema:
    """The schema of an id. Raises SchemaNotFound; SchemaRegistryError: the server has no API of Apicurio."""
    api, kind = _searched(f"{own.kind}Id={own.number}", ask)
    path = f"{api}/ids/{own.kind}Ids/{own.number}"
    text, (references, _) = ask(path)[1], ask(f"{path}/references")
    try:
        used = tuple(_reference(one) for one in references)
        return Schema(text.decode(), _known(kind), used)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SchemaRegistryError(f"the schema registry answers {path} with no schema: {error}") from None


def _searched(wanted: str, ask: Ask) -> tuple[str, Any]:
    """The API that the server has, and the type of the artifact."""
    for api, search, listed, kind in _APIS:
        try:
            document, _ = ask(f"{api}{search}?{wanted}")
        except SchemaRegistryError as error:
            if error.status != 404:
                raise
            missing = error
            continue
        found = document.get(listed) if isinstance(document, dict) else None
        if not found:
            raise SchemaNotFound(f"the schema registry has no version with {wanted}", status=404)
        return api, found[0].get(kind)
    raise missing


def _known(kind: Any) -> str:
    if kind not in SCHEMA_TYPES:
        raise ValueError(f"its type is {kind}")
    return str(kind)


def _reference(one: Any) -> Reference:
    """Artifacts of the default group are subjects of the API in Confluent's form, by their ids."""
    group, artifact = one.get("groupId"), str(one["artifactId"])
    subject = artifact if group in _DEFAULT_GROUP else f"{group}/{artifact}"
    return Reference(str(one["name"]), subject, int(one["version"]))
