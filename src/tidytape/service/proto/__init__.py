"""The service as protocol buffers: ``market_data.proto``, and Python classes of its messages in ``market_data_pb2``.

The definition is written by hand, because a field number must never change once it is used; a test compares it with
`tidytape.catalogue`. ``python -m tidytape.service.proto`` generates the classes. They need protobuf, which the extra
``grpc`` installs, so nothing here is imported before gRPC is served.
"""
