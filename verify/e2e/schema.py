"""As much of JSON Schema (draft 2020-12) as docs/record.schema.json uses, so that records can be validated with the standard library alone. An unknown keyword is an error: a schema that is not understood must not pass."""
import re

_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_SILENT = {"$schema", "$defs", "title", "description", "propertyNames"}


def _is(value, name):
    if name in ("number", "integer"):
        fits = isinstance(value, int) or (isinstance(value, float) and (name == "number" or value.is_integer()))
        return fits and not isinstance(value, bool)
    return isinstance(value, _TYPES[name])


def errors(value, schema, root=None, place="$"):
    """What is wrong with `value`, each with its place; an empty list when it conforms."""
    root = root or schema
    if "$ref" in schema:
        return errors(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place)
    found = []
    for word, rule in schema.items():
        if word == "type":
            if not any(_is(value, t) for t in ([rule] if isinstance(rule, str) else rule)):
                return [f"{place}: {value!r} is not {rule}"]
        elif word == "enum":
            found += [] if value in rule else [f"{place}: {value!r} is none of {rule}"]
        elif word == "const":
            found += [] if value == rule else [f"{place}: {value!r} is not {rule!r}"]
        elif word == "minimum":
            found += [] if not _is(value, "number") or value >= rule else [f"{place}: {value} is below {rule}"]
        elif word == "pattern":
            found += [] if not isinstance(value, str) or re.search(rule, value) else [f"{place}: {value!r} does not match {rule}"]
        elif word == "required":
            found += [f"{place}: {name} is missing" for name in rule if isinstance(value, dict) and name not in value]
        elif word == "properties":
            for name, sub in rule.items():
                if isinstance(value, dict) and name in value:
                    found += errors(value[name], sub, root, f"{place}.{name}")
        elif word == "additionalProperties":
            for name in (set(value) - set(schema.get("properties", {})) if isinstance(value, dict) else ()):
                found += [f"{place}: unknown {name}"] if rule is False else errors(value[name], rule, root, f"{place}.{name}")
        elif word == "items":
            for i, item in enumerate(value if isinstance(value, list) else ()):
                found += errors(item, rule, root, f"{place}[{i}]")
        elif word in ("anyOf", "oneOf"):
            fits = [errors(value, sub, root, place) for sub in rule]
            good = sum(not e for e in fits)
            if good == 0 or (word == "oneOf" and good != 1):
                found.append(f"{place}: fits {good} of {word}: " + "; ".join(e[0] for e in fits if e))
        elif word not in _SILENT:
            raise ValueError(f"{place}: keyword {word} is not understood")
        if word == "propertyNames":
            found += [e for name in value for e in errors(name, rule, root, f"{place} name")]
    return found
