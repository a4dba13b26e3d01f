"""A .tflite file as a document, in layers of one class: `records` (the schema's tables), `file`
(tensors and operators, writing), `layers` (constants, steps, weights), `ops` (new ops), `document`
(TfliteDocument, all primitives). Comes in: bytes. Goes out: bytes."""
