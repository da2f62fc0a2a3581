"""A load generator on gRPC C-core: unary calls to an xds:/// target until stdin closes.

It prints one line per finished call: "ok BACKEND" or "err CODE MESSAGE", as its Go twin does.

    GRPC_XDS_BOOTSTRAP=file client.py TARGET METHOD WORKERS [csds | keys COUNT | targets COUNT | session [COOKIE]]

With "csds" it also shows by CSDS what it holds, and prints "csds ADDRESS" first. With "keys" it makes one call for each key,
0 to COUNT - 1, in the header x-key, and prints "key KEY BACKEND" for each and "done" at the end. With "targets" it opens COUNT
channels, to TARGET000, TARGET001, …, and makes one call by each. With "session" the calls of one more
worker are a session: they have the last cookie that a response has set, COOKIE at first. It prints "session BACKEND" for each, and
"cookie COOKIE" for each new cookie.
"""

import json
import sys
import threading
import time

import grpc
import grpc.experimental

# Longer than any wait the scenarios cause on purpose: a call that takes this long is lost.
DEADLINE = 15.0
# One worker stays near 300 calls a second, which two cores can serve beside all the rest.
PAUSE = 0.003


def open_channel(target):
    """Opens a channel whose clusters have the security that the control plane says, or none."""
    credentials = grpc.xds_channel_credentials(grpc.experimental.insecure_channel_credentials())
    return grpc.secure_channel(target, credentials)


def call(method):
    try:
        return "ok " + method(b"", timeout=DEADLINE).decode()
    except grpc.RpcError as error:
        return f"err {error.code().name} {json.dumps(error.details())}"


def work(method, stopped):
    while not stopped.is_set():
        # One write per line: lines of several threads must not mix.
        sys.stdout.write(call(method) + "\n")
        sys.stdout.flush()
        time.sleep(PAUSE)


def call_by_key(method, keys):
    for key in keys:
        try:
            answer = method(b"", timeout=DEADLINE, metadata=[("x-key", str(key))])
            line = f"key {key} {answer.decode()}\n"
        except grpc.RpcError as error:
            line = f"err {error.code().name} {json.dumps(error.details())}\n"
        sys.stdout.write(line)
        sys.stdout.flush()


def open_targets(prefix, path, count):
    channels = [open_channel(f"{prefix}{number:03}") for number in range(count)]
    calls = [channel.unary_unary(path).future(b"", timeout=DEADLINE) for channel in channels]
    sys.stdin.read()
    return calls


def keep_session(method, stopped, cookie):
    while not stopped.is_set():
        metadata = [("cookie", cookie)] if cookie else []
        try:
            answer, info = method.with_call(b"", timeout=DEADLINE, metadata=metadata)
            line = f"session {answer.decode()}\n"
            for key, value in info.initial_metadata():
                if key == "set-cookie":
                    cookie = value.split(";")[0]
                    line = f"cookie {cookie}\n{line}"
        except grpc.RpcError as error:
            line = f"err {error.code().name} {json.dumps(error.details())}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        time.sleep(PAUSE)


def serve_csds():
    from concurrent import futures

    import grpc_csds

    server = grpc.server(futures.ThreadPoolExecutor())
    grpc_csds.add_csds_servicer(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"csds 127.0.0.1:{port}", flush=True)
    return server


def main():
    server = serve_csds() if sys.argv[4:] == ["csds"] else None
    target, path, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if sys.argv[4:5] == ["targets"]:
        open_targets(target, path, int(sys.argv[5]))
        return
    channel = open_channel(target)
    method = channel.unary_unary(path)
    stopped = threading.Event()
    if sys.argv[4:5] == ["keys"]:
        count = int(sys.argv[5])
        jobs = [(call_by_key, (method, range(first, count, workers))) for first in range(workers)]
    else:
        jobs = [(work, (method, stopped))] * workers
    if sys.argv[4:5] == ["session"]:
        jobs.append((keep_session, (method, stopped, "".join(sys.argv[5:]))))
    threads = [threading.Thread(target=run, args=args) for run, args in jobs]
    for thread in threads:
        thread.start()
    if sys.argv[4:5] == ["keys"]:
        for thread in threads:
            thread.join()
        print("done", flush=True)
    sys.stdin.read()
    stopped.set()
    for thread in threads:
        thread.join()
    channel.close()
    if server:
        server.stop(None)


if __name__ == "__main__":
    main()
