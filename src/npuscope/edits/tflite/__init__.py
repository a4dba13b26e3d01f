"""A .tflite file as a document, in layers of one class on the file graph of
`npuscope.files.tflite`: `layers` (constants, steps, weights), `ops` (new ops), `document`
(TfliteDocument, all primitives). Comes in: bytes. Goes out: bytes."""
