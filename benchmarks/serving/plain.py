"""A server without a queue: one request at a time, each with all threads. For comparison only.

python benchmarks/serving/plain.py CHECKPOINT
python benchmarks/serving/plain.py CHECKPOINT --ctranslate2
"""

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch

import zoo
from zoo.decoding.processors import NEVER
from zoo.decoding.task import target_limits

Translate = Callable[..., Sequence[str]]


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


def with_ctranslate2(checkpoint: str) -> Translate:
    """Return a function that translates with CTranslate2 itself, without the zoo's checks."""
    import ctranslate2

    held = zoo.load(checkpoint).checkpoint
    source, target = held.source_tokenizer, held.target_tokenizer
    with tempfile.TemporaryDirectory() as folder:
        zoo.export(checkpoint, "ctranslate2", f"{folder}/export")
        model = ctranslate2.Translator(
            f"{folder}/export", device="cpu", inter_threads=1, intra_threads=os.cpu_count() or 1
        )
    ids = {target.token(i): i for i in range(target.size)}
    never = [[target.token(i)] for i in NEVER]

    def translate(texts: list[str], beam: int = 1, max_length: int | None = None) -> list[str]:
        read = source.encode(texts)
        longest = torch.tensor([max(len(one) + 1 for one in read)])
        results = model.translate_batch(
            [[source.token(i) for i in one] for one in read],
            beam_size=beam,
            length_penalty=0.0,
            max_decoding_length=max_length or int(target_limits(longest, None)),
            min_decoding_length=1,
            suppress_sequences=never,
            max_input_length=0,
            return_end_token=True,
        )
        written = [[ids[token] for token in one.hypotheses[0]] for one in results]
        return [target.decode([i for i in one if i != ids["</s>"]]) for one in written]

    return translate


def main() -> None:
    fast = sys.argv[2:] == ["--ctranslate2"]
    translate: Translate = (with_ctranslate2 if fast else lambda c: zoo.load(c).translate)(
        sys.argv[1]
    )
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:  # the standard library's name
            self.answer({"status": "ready"})

        def do_POST(self) -> None:  # the standard library's name
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            options = {k: asked[k] for k in ("beam", "max_length") if k in asked}
            with lock:
                texts = translate(asked["texts"], **options)
            self.answer({"translations": [{"text": text} for text in texts]})

        def answer(self, value: object) -> None:
            body = json.dumps(value).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
            self.wfile.write(head.encode() + body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    print(f"Serving at http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
