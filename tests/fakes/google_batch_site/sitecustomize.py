"""Google's own clients, with a server on loopback in place of Google's: for Google Batch's executor in the tests."""

import functools
import os
import sys

if "FAKE_GOOGLE" in os.environ and "snakemake" in sys.orig_argv:
    import google.cloud.logging as cloud_logging
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import batch_v1
    from google.cloud.batch_v1.services.batch_service.transports.rest import BatchServiceRestTransport

    server = os.environ["FAKE_GOOGLE"]
    transport = BatchServiceRestTransport(
        host=server.removeprefix("http://"), url_scheme="http", credentials=AnonymousCredentials()
    )
    batch_v1.BatchServiceClient = functools.partial(batch_v1.BatchServiceClient, transport=transport)
    cloud_logging.Client = functools.partial(
        cloud_logging.Client,
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": server},
        _use_grpc=False,
    )
