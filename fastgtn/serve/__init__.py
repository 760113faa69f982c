"""An HTTP server for a trained run. Starlette and uvicorn are an optional extra, `fastgtn[serve]`."""
