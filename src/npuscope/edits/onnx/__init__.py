"""An .onnx file as a document, in layers of one class on the file graph of `npuscope.files.onnx`:
`quantizers` (steps), `layers` (constants, weights), `ops` (kinds, new ops), `border` (inputs and
outputs), `document` (OnnxDocument, all primitives). Comes in: bytes. Goes out: bytes."""
