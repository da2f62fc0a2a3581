"""An xDS-enabled server on gRPC C-core: its Listener decides whether it listens, and what it answers.

It answers every call of METHOD with NAME until stdin closes.

    GRPC_XDS_BOOTSTRAP=file server.py ADDRESS METHOD NAME
"""

import sys
from concurrent import futures

import grpc


def main():
    address, path, name = sys.argv[1:]
    service, method = path.strip("/").split("/")
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), xds=True)
    handler = grpc.unary_unary_rpc_method_handler(lambda request, context: name.encode())
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    credentials = grpc.xds_server_credentials(grpc.insecure_server_credentials())
    server.add_secure_port(address, credentials)
    server.start()
    print("started", flush=True)
    sys.stdin.read()
    server.stop(None)


if __name__ == "__main__":
    main()
