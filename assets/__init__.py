"""What the pipeline makes: one module per stage, in pipeline order. An asset is a shell over the library."""
