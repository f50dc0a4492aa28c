"""The service over HTTP: routes, the gate that every request passes, answers of errors, headers and metrics."""
