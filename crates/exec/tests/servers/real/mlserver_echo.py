"""A model for MLServer that repeats what it is asked, with its name."""

from mlserver import MLModel
from mlserver.codecs import StringCodec
from mlserver.types import InferenceResponse


class Echo(MLModel):
    async def load(self):
        return True

    async def predict(self, payload):
        prompt = StringCodec.decode_input(payload.inputs[0])[0]
        text = StringCodec.encode_output("TEXT", [f"{self.name}<{prompt}>"])
        return InferenceResponse(model_name=self.name, outputs=[text])
