"""Gets the files that pip's report names, each from where an interrupted run stopped.

Arguments: the report, the folder for the files, "plain" for no progress line.
Ends with 3 when a file cannot even be begun: pip may know another way to it,
and with 4 when a file is not the one that pip means, and has been removed.
"""

import hashlib
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

BLOCK = 1 << 20
ATTEMPTS = 5


def main(report, folder, style):
    # pip's setting for its own connections holds for ours.
    if os.environ.get("PIP_CERT"):
        os.environ.setdefault("SSL_CERT_FILE", os.environ["PIP_CERT"])
    with open(report, encoding="utf-8") as file:
        items = [item["download_info"] for item in json.load(file)["install"]]
    for item in items:
        url = item["url"]
        # `sha256=...`, in every pip that writes reports; a file that is no archive has none.
        kind, _, digest = item.get("archive_info", {}).get("hash", "").partition("=")
        name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])
        get(url, digest if kind == "sha256" else None, os.path.join(folder, name), style != "plain")


def get(url, digest, path, lively):
    if os.path.exists(path) and right(path, digest):
        return
    part = path + ".part"
    failures = 0
    while True:
        before = size(part)
        try:
            pull(url, part, lively)
            break
        except (OSError, EOFError, http.client.HTTPException) as error:
            if size(part) == 0:
                print(f"{url}: {error}", file=sys.stderr)
                sys.exit(3)
            if isinstance(error, urllib.error.HTTPError) and error.code == 416:
                break  # Nothing is left to get; the checksum decides.
            failures = 1 if size(part) > before else failures + 1
            if failures == ATTEMPTS:
                sys.exit(f"{url}: {error}")
            print(f"  {error}; going on at {size(part) / 1e6:.0f} MB", file=sys.stderr)
            time.sleep(2 ** (failures - 1))
    if not right(part, digest):
        os.remove(part)
        print(f"{url}: not the file of that checksum; removed", file=sys.stderr)
        sys.exit(4)
    os.replace(part, path)


def pull(url, part, lively):
    have = size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=60) as response:
        if have and getattr(response, "status", None) != 206:
            have = 0  # It sends all of it again.
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        announce(os.path.basename(part)[: -len(".part")], have, total)
        with open(part, "ab" if have else "wb") as file:
            copy(response, file, have, total, lively)


def copy(response, file, have, total, lively):
    shown = time.monotonic()
    while block := response.read(BLOCK):
        file.write(block)
        have += len(block)
        if time.monotonic() - shown > (0.2 if lively else 10):
            shown = time.monotonic()
            begin, end = ("\r", "") if lively else ("", "\n")
            of = f" of {total / 1e6:.0f}" if total else ""
            print(f"{begin}    {have / 1e6:.0f}{of} MB ", end=end, file=sys.stderr, flush=True)
    if lively:
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)
    if total is not None and have < total:
        raise EOFError("the connection ended early")


def announce(name, have, total):
    rest = f", going on at {have / 1e6:.0f} MB" if have else ""
    megabytes = f": {total / 1e6:.1f} MB" if total else ""
    print(f"  {name}{megabytes}{rest}", file=sys.stderr, flush=True)


def right(path, digest):
    if digest is None:
        return True
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            sha.update(block)
    return sha.hexdigest() == digest


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


main(*sys.argv[1:])
