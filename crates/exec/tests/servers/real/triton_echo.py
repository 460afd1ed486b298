"""A model for the Python backend of Triton that repeats what it is asked, with its name."""

import numpy
import triton_python_backend_utils as utils


class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_name"]

    def execute(self, requests):
        answers = []
        for request in requests:
            prompt = utils.get_input_tensor_by_name(request, "PROMPT").as_numpy()[0].decode()
            text = numpy.array([f"{self.name}<{prompt}>".encode()], dtype=object)
            answers.append(utils.InferenceResponse([utils.Tensor("TEXT", text)]))
        return answers
