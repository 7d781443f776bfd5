"""Information: pure functions, tensors in and nats out; knows no model, no data set, no file. Usable alone."""

from natsel.stub_names import names_in_stub

__getattr__, __dir__ = names_in_stub(__name__)
