"""A server without a queue: one request at a time, each with all threads. For comparison only.

python benchmarks/serving/plain.py CHECKPOINT
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import zoo


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True


def main() -> None:
    translator, lock = zoo.load(sys.argv[1]), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:  # the standard library's name
            self.answer({"status": "ready"})

        def do_POST(self) -> None:  # the standard library's name
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            options = {k: asked[k] for k in ("beam", "max_length") if k in asked}
            with lock:
                texts = translator.translate(asked["texts"], **options)
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
