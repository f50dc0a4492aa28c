"""The service as protocol buffers: ``market_data.proto``, and Python's classes of its messages in ``market_data_pb2``.

The definition is written by hand, for a number once used must never change; a test holds it against
`tidytape.catalogue`. ``python -m tidytape.service.proto`` makes the classes from it. They need protobuf, which
the extra ``grpc`` installs, so nothing here is imported before gRPC is served.
"""
