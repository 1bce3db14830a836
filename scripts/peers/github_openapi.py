"""Cuts GitHub's OpenAPI to what the adapter asks, and adds what GitHub says in prose only.

usage: github_openapi.py WHOLE.json OUT.json
"""

import json
import sys

PATHS = [
    "/user",
    "/user/repos",
    "/repos/{owner}/{repo}/actions/runs",
    "/repos/{owner}/{repo}/actions/runs/{run_id}",
]
MEDIA_TYPE = "application/vnd.github+json"
# Their documentation asks for this header and for a token; their OpenAPI mentions neither.
VERSION = {
    "name": "X-GitHub-Api-Version",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "enum": ["2022-11-28"]},
}
BEARER = {"type": "http", "scheme": "bearer"}


def references(node):
    """Every `$ref` below a node."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def name_media_type(node):
    """GitHub wants its own media type asked for; a peer that has nothing else holds us to it."""
    if isinstance(node, dict):
        content = node.get("content")
        if isinstance(content, dict) and "application/json" in content:
            content[MEDIA_TYPE] = content.pop("application/json")
        for value in node.values():
            name_media_type(value)
    elif isinstance(node, list):
        for value in node:
            name_media_type(value)


def main(whole_path, out_path):
    with open(whole_path, encoding="utf-8") as file:
        whole = json.load(file)
    operations = {path: {"get": whole["paths"][path]["get"]} for path in PATHS}
    for methods in operations.values():
        methods["get"].setdefault("parameters", []).append(VERSION)
    components = {"securitySchemes": {"token": BEARER}}
    waiting = list(references(operations))
    while waiting:
        _, _, kind, name = waiting.pop().split("/")
        found = components.setdefault(kind, {})
        if name not in found:
            found[name] = whole["components"][kind][name]
            waiting.extend(references(found[name]))
    cut = {
        "openapi": whole["openapi"],
        "info": whole["info"],
        "paths": operations,
        "components": components,
        "security": [{"token": []}],
    }
    name_media_type(cut)
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(cut, file)


main(*sys.argv[1:])
