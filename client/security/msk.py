"""IAM logins of Amazon MSK: a token callback for OAUTHBEARER, with AWS' signer (the extra `msk`).

    sasl.mechanism=OAUTHBEARER
    sasl.oauthbearer.token.callback=kseg.client.security.msk:token

A token is a presigned URL of the action kafka-cluster:Connect, valid for 15 minutes. Credentials and region are those
of AWS' own tools: environment variables, the profile (AWS_PROFILE), the role of the pod, container or instance.
https://docs.aws.amazon.com/msk/latest/developerguide/iam-access-control.html
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kseg.client.errors import AuthenticationFailed
from kseg.client.security.tokens import Token

if TYPE_CHECKING:
    from botocore.session import Session

_EXTRA: Final = "MSK's IAM logins need the optional extra: pip install 'kafka-segment-etl[msk]'"
_NO_REGION: Final = "no AWS region is set: set AWS_REGION to the cluster's region, in the driver and in the workers"
_NO_CREDENTIALS: Final = (
    "no AWS credentials are found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or give the pod, "
    "container or instance a role; in the driver and in the workers"
)


def token() -> Token:
    """A new token for the cluster's region. Raises AuthenticationFailed, retriable where a service of AWS did not
    answer."""
    try:
        from aws_msk_iam_sasl_signer.MSKAuthTokenProvider import generate_auth_token
        from botocore.exceptions import BotoCoreError, HTTPClientError
        from botocore.session import Session
    except ImportError as error:
        raise AuthenticationFailed(_EXTRA) from error
    problem, retriable = "", False
    try:
        session = Session()
        region = _region(session)
        if session.get_credentials() is None:
            raise AuthenticationFailed(_NO_CREDENTIALS)
        text, expires_at_ms = generate_auth_token(region)
    except BotoCoreError as error:
        # Its text may have the output of a credential process, so the message has the class alone.
        problem = f"AWS credentials cannot be had ({type(error).__name__}): aws sts get-caller-identity shows why"
        retriable = isinstance(error, HTTPClientError)
    if problem:
        raise AuthenticationFailed(problem, retriable=retriable)
    return Token.of(text, expires_at_ms / 1000)


def _region(session: Session) -> str:
    """The region by the rule of AWS' newer tools, AWS_REGION first; botocore itself reads AWS_DEFAULT_REGION and the
    profile."""
    region = os.environ.get("AWS_REGION") or session.get_config_variable("region")
    if not region:
        raise AuthenticationFailed(_NO_REGION)
    return str(region)
