//! The document as the message `openapi.v2.Document` of gnostic, which kubectl asks for because it is read faster.

use serde_json::Value;

use crate::Map;
use crate::protobuf::wire;

/// The members of a message, and the number of its entries for members that begin with `x-`; 0 for none.
struct Message {
    members: &'static [(&'static str, u32, Form)],
    extensions: u32,
}

/// How a value is written.
enum Form {
    /// A value that is written as YAML, inside a message.
    Any,
    Bool,
    Double,
    Text,
    Whole,
    /// Each entry of a list.
    Each(&'static Form),
    /// A message whose entries, under this number, have a name and a value.
    Entries(u32, &'static Form),
    /// A message with the value alone, under this number.
    In(u32, &'static Form),
    Message(&'static Message),
    /// A parameter, which has another message for each place.
    Parameter,
    /// A schema, or whether anything is allowed.
    SchemaOrBool,
}

const TEXTS: Form = Form::Each(&Form::Text);

static DOCUMENT: Message = Message {
    members: &[
        ("swagger", 1, Form::Text),
        ("info", 2, Form::Message(&INFO)),
        ("paths", 8, Form::Entries(2, &Form::Message(&PATH))),
        ("definitions", 9, Form::Entries(1, &Form::Message(&SCHEMA))),
        ("security", 12, Form::Each(&Form::Entries(1, &Form::In(1, &TEXTS)))),
        ("securityDefinitions", 13, Form::Entries(1, &Form::In(2, &Form::Message(&API_KEY)))),
    ],
    extensions: 16,
};

static INFO: Message =
    Message { members: &[("title", 1, Form::Text), ("version", 2, Form::Text)], extensions: 7 };

static API_KEY: Message = Message {
    members: &[
        ("type", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("description", 4, Form::Text),
    ],
    extensions: 5,
};

static PATH: Message = Message {
    members: &[
        ("get", 2, Form::Message(&OPERATION)),
        ("put", 3, Form::Message(&OPERATION)),
        ("post", 4, Form::Message(&OPERATION)),
        ("delete", 5, Form::Message(&OPERATION)),
        ("patch", 8, Form::Message(&OPERATION)),
        ("parameters", 9, Form::Each(&Form::Parameter)),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    members: &[
        ("tags", 1, TEXTS),
        ("description", 3, Form::Text),
        ("operationId", 5, Form::Text),
        ("produces", 6, TEXTS),
        ("consumes", 7, TEXTS),
        ("parameters", 8, Form::Each(&Form::Parameter)),
        ("responses", 9, Form::Entries(1, &Form::In(1, &Form::Message(&RESPONSE)))),
    ],
    extensions: 13,
};

static RESPONSE: Message = Message {
    members: &[("description", 1, Form::Text), ("schema", 2, Form::In(1, &Form::Message(&SCHEMA)))],
    extensions: 5,
};

static BODY: Message = Message {
    members: &[
        ("description", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("required", 4, Form::Bool),
        ("schema", 5, Form::Message(&SCHEMA)),
    ],
    extensions: 6,
};

static QUERY: Message = Message {
    members: &[
        ("required", 1, Form::Bool),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 6, Form::Text),
        ("format", 7, Form::Text),
    ],
    extensions: 23,
};

/// Of a parameter in the path.
static PLACE: Message = Message {
    members: &[
        ("required", 1, Form::Bool),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 5, Form::Text),
        ("format", 6, Form::Text),
    ],
    extensions: 22,
};

static SCHEMA: Message = Message {
    members: &[
        ("$ref", 1, Form::Text),
        ("format", 2, Form::Text),
        ("title", 3, Form::Text),
        ("description", 4, Form::Text),
        ("default", 5, Form::Any),
        ("multipleOf", 6, Form::Double),
        ("maximum", 7, Form::Double),
        ("exclusiveMaximum", 8, Form::Bool),
        ("minimum", 9, Form::Double),
        ("exclusiveMinimum", 10, Form::Bool),
        ("maxLength", 11, Form::Whole),
        ("minLength", 12, Form::Whole),
        ("pattern", 13, Form::Text),
        ("maxItems", 14, Form::Whole),
        ("minItems", 15, Form::Whole),
        ("uniqueItems", 16, Form::Bool),
        ("maxProperties", 17, Form::Whole),
        ("minProperties", 18, Form::Whole),
        ("required", 19, TEXTS),
        ("enum", 20, Form::Each(&Form::Any)),
        ("additionalProperties", 21, Form::SchemaOrBool),
        ("type", 22, Form::In(1, &Form::Text)),
        ("items", 23, Form::In(1, &Form::Message(&SCHEMA))),
        ("properties", 25, Form::Entries(1, &Form::Message(&SCHEMA))),
        ("example", 30, Form::Any),
    ],
    extensions: 31,
};

/// Writes the document.
pub(super) fn encode(document: &Map) -> Vec<u8> {
    let mut out = Vec::new();
    message(&mut out, document, &DOCUMENT);
    out
}

fn message(out: &mut Vec<u8>, members: &Map, of: &Message) {
    for (name, number, form) in of.members {
        if let Some(value) = members.get(*name) {
            put(out, *number, form, value);
        }
    }
    for (name, value) in members.iter().filter(|(name, _)| of.extensions > 0 && name.starts_with("x-")) {
        entry(out, of.extensions, name, &Form::Any, value);
    }
}

/// Writes a value, unless it has another form.
fn put(out: &mut Vec<u8>, number: u32, form: &Form, value: &Value) {
    match (form, value) {
        // JSON is YAML.
        (Form::Any, value) => {
            wire::nested(out, number, |out| wire::bytes(out, 2, value.to_string().as_bytes()));
        }
        (Form::Bool, Value::Bool(value)) => wire::integer(out, number, (*value).into()),
        (Form::Double, Value::Number(value)) => {
            wire::double(out, number, value.as_f64().unwrap_or_default());
        }
        (Form::Text, Value::String(value)) => wire::bytes(out, number, value.as_bytes()),
        (Form::Whole, Value::Number(value)) => {
            wire::integer(out, number, value.as_i64().unwrap_or_default());
        }
        (Form::Each(form), Value::Array(values)) => {
            values.iter().for_each(|value| put(out, number, form, value));
        }
        (Form::Entries(inner, form), Value::Object(members)) => wire::nested(out, number, |out| {
            members.iter().for_each(|(name, value)| entry(out, *inner, name, form, value));
        }),
        (Form::In(inner, form), value) => wire::nested(out, number, |out| put(out, *inner, form, value)),
        (Form::Message(of), Value::Object(members)) => {
            wire::nested(out, number, |out| message(out, members, of));
        }
        (Form::Parameter, Value::Object(members)) => {
            wire::nested(out, number, |out| wire::nested(out, 1, |out| parameter(out, members)));
        }
        (Form::SchemaOrBool, Value::Bool(value)) => {
            wire::nested(out, number, |out| wire::integer(out, 2, (*value).into()));
        }
        (Form::SchemaOrBool, value) => {
            wire::nested(out, number, |out| put(out, 1, &Form::Message(&SCHEMA), value))
        }
        _ => {}
    }
}

fn parameter(out: &mut Vec<u8>, members: &Map) {
    let of = match members.get("in").and_then(Value::as_str) {
        Some("body") => return wire::nested(out, 1, |out| message(out, members, &BODY)),
        Some("path") => (4, &PLACE),
        _ => (3, &QUERY),
    };
    wire::nested(out, 2, |out| wire::nested(out, of.0, |out| message(out, members, of.1)));
}

/// Writes an entry with a name and a value.
fn entry(out: &mut Vec<u8>, number: u32, name: &str, form: &Form, value: &Value) {
    wire::nested(out, number, |out| {
        wire::bytes(out, 1, name.as_bytes());
        put(out, 2, form, value);
    });
}
