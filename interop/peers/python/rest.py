"""A REST control plane on Python's standard library: nothing of oxds, nothing of Envoy.

    rest.py DIR [CERTIFICATE KEY AUTHORITY TOKEN]

Serves DIR/clusters.json and its like at /v3/discovery:clusters: a DiscoveryResponse in JSON, of which a poll is told the
resources that it names, or all if it names none. A file that is missing is an error. With the other four files it is over
TLS, for clients with a certificate of the authority that show the token; they are read again for every connection. Lines
on stdout:

    http ADDRESS                     where it listens, once
    poll KIND VERSION NODE STATUS    a poll was answered
"""

import json
import pathlib
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER = pathlib.Path(sys.argv[1])
CERTIFICATE, KEY, AUTHORITY, TOKEN = sys.argv[2:] or (None,) * 4


def name(resource):
    return resource.get("cluster_name") or resource.get("name")


class Discovery(BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"])
        request = json.loads(self.rfile.read(length))
        prefix, _, kind = self.path.partition("/v3/discovery:")
        if prefix or self.headers["content-type"] != "application/json":
            return self.answer(404, {}, kind, request)
        if TOKEN and self.headers["authorization"] != "Bearer " + pathlib.Path(TOKEN).read_text():
            return self.answer(401, {"error": "this is not the token"}, kind, request)
        try:
            served = json.loads((FOLDER / f"{kind}.json").read_text())
        except (OSError, ValueError) as error:
            return self.answer(503, {"error": str(error)}, kind, request)
        if served["version_info"] == request.get("versionInfo"):
            return self.answer(304, None, kind, request)
        wanted = request.get("resourceNames")
        if wanted:
            served["resources"] = [r for r in served["resources"] if name(r) in wanted]
        return self.answer(200, served, kind, request)

    def answer(self, status, body, kind, request):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        version, node = request.get("versionInfo", "-"), request["node"]["id"]
        print("poll", kind, version, node, status, flush=True)

    def log_message(self, *_):
        pass


class OverTls(ThreadingHTTPServer):
    def get_request(self):
        accepted, address = super().get_request()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=AUTHORITY)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(CERTIFICATE, KEY)
        # A failed handshake is an OSError, which the server ignores.
        return context.wrap_socket(accepted, server_side=True), address


server = (OverTls if CERTIFICATE else ThreadingHTTPServer)(("127.0.0.1", 0), Discovery)
print("http", "127.0.0.1:%d" % server.server_port, flush=True)
server.serve_forever()
