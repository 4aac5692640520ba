//! Kubernetes' protobuf format for simulated clients, by the recorded numbers of its fields. It knows nothing of the
//! product's schemas, so both can be compared.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::recorded;

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";

/// Messages of which the fields are in JSON among those of the message around them.
const INLINED: &[&str] = &[
    "ephemeralContainerCommon",
    "handler",
    "localObjectReference",
    "persistentVolumeSource",
    "volumeSource",
];

/// By group and version, the fields of each message: number and type.
static FIELDS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(&recorded::text("data/protobuf-fields.json")).expect("the recording is JSON")
});

/// A message: its group and version, and its name.
#[derive(Clone, Debug)]
struct Message {
    group: String,
    name: String,
}

impl Message {
    fn new(group: &str, name: &str) -> Self {
        Self { group: group.to_owned(), name: name.to_owned() }
    }

    /// The message of a kind; nothing if its fields were not recorded.
    fn of_kind(api_version: &str, kind: &str) -> Option<Self> {
        let group = if api_version == "v1" { "core/v1" } else { api_version };
        ["meta/v1", group].into_iter().map(|group| Self::new(group, kind)).find(|message| message.is_known())
    }

    fn is_known(&self) -> bool {
        FIELDS[&self.group][&self.name].is_object()
    }

    /// The fields with their numbers and types.
    fn fields(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
        let fields = FIELDS[&self.group][&self.name].as_object();
        let fields = fields.unwrap_or_else(|| panic!("the fields of {self:?} were not recorded"));
        fields.iter().map(|(name, field)| {
            // The only field that has another name in JSON.
            let name = if name == "uID" { "uid" } else { name };
            (name, field[0].as_u64().expect("a number"), field[1].as_str().expect("a type"))
        })
    }

    /// The message that a field's type names.
    fn named(&self, ty: &str) -> Self {
        match ty.rsplit_once('.') {
            None => Self::new(&self.group, ty),
            Some(("apimachinery.pkg.apis.meta.v1", name)) => Self::new("meta/v1", name),
            Some(("core.v1", name)) => Self::new("core/v1", name),
            Some((_, name)) => Self::new("", name),
        }
    }
}

/// Whether a body of this kind can be written.
pub fn knows(document: &Value) -> bool {
    let text = |name: &str| document[name].as_str().unwrap_or_default();
    Message::of_kind(text("apiVersion"), text("kind")).is_some()
}

/// The version and kind of the object that is sent to a path, whose collection or subresource has the plural name of the
/// kind; nothing if the fields of the kind were not recorded.
pub fn kind_of(path: &str) -> Option<(String, &'static str)> {
    let path = path.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let (version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => return None,
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (version, word) = match rest {
        [_, _, "token"] => ("authentication.k8s.io/v1".to_owned(), "tokenrequests"),
        [_, _, "binding"] => (version, "bindings"),
        [_, _, "eviction"] => ("policy/v1".to_owned(), "evictions"),
        [plural, ..] => (version, *plural),
        [] => return None,
    };
    let group = if version == "v1" { "core/v1" } else { &version };
    let kinds = FIELDS.get(group)?.as_object()?.keys();
    let kind = kinds.map(String::as_str).find(|kind| format!("{}s", kind.to_ascii_lowercase()) == word)?;
    Some((version, kind))
}

/// Writes a document, which names its kind and version.
pub fn encode(document: &Value) -> Vec<u8> {
    let text = |name: &str| document[name].as_str().unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let message = Message::of_kind(version, kind).unwrap_or_else(|| panic!("{version} {kind} is unknown"));
    let mut types = Vec::new();
    put(&mut types, 1, version.as_bytes());
    put(&mut types, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    put(&mut out, 1, &types);
    put(&mut out, 2, &written(&message, document));
    out
}

/// Reads a document. What is empty text is left out, as in JSON.
pub fn decode(bytes: &[u8]) -> Value {
    let rest = bytes.strip_prefix(MAGIC).unwrap_or_else(|| panic!("not protobuf: {}", bytes.escape_ascii()));
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for (number, value) in fields(rest) {
        match number {
            1 => {
                for (number, value) in fields(value.bytes()) {
                    let text = value.text();
                    if number == 1 { version = text } else { kind = text }
                }
            }
            2 => raw = value.bytes(),
            _ => {}
        }
    }
    let message = Message::of_kind(&version, &kind).unwrap_or_else(|| panic!("{version} {kind} is unknown"));
    let mut document = read(&message, raw);
    document.insert("apiVersion".to_owned(), version.into());
    document.insert("kind".to_owned(), kind.into());
    document.into()
}

/// Takes the first event of a watch from the bytes that have come; nothing while it is incomplete.
pub fn take_event(bytes: &mut Vec<u8>) -> Option<Value> {
    let length = u32::from_be_bytes(*bytes.first_chunk::<4>()?) as usize;
    let frame = bytes.get(4..4 + length)?.to_vec();
    bytes.drain(..4 + length);
    let (mut kind, mut object) = (String::new(), Value::Null);
    for (number, value) in fields(&frame) {
        match number {
            1 => kind = value.text(),
            _ => fields(value.bytes()).for_each(|(_, raw)| object = decode(raw.bytes())),
        }
    }
    Some(json!({"type": kind, "object": object}))
}

fn written(message: &Message, object: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, ty) in message.fields() {
        let value = match object.get(name) {
            None if INLINED.contains(&name) => {
                put(&mut out, number, &written(&message.named(ty), object));
                continue;
            }
            None | Some(Value::Null) => continue,
            Some(value) => value,
        };
        if let Some(ty) = ty.strip_prefix("repeated ") {
            let items = value.as_array().unwrap_or_else(|| panic!("{name}: {value}"));
            items.iter().for_each(|item| put_value(&mut out, message, number, ty, item));
        } else if let Some(ty) = ty.strip_prefix("map<string, ").and_then(|ty| ty.strip_suffix('>')) {
            for (key, value) in value.as_object().unwrap_or_else(|| panic!("{name}: {value}")) {
                let mut entry = Vec::new();
                put(&mut entry, 1, key.as_bytes());
                put_value(&mut entry, message, 2, ty, value);
                put(&mut out, number, &entry);
            }
        } else {
            put_value(&mut out, message, number, ty, value);
        }
    }
    out
}

fn put_value(out: &mut Vec<u8>, message: &Message, number: u64, ty: &str, value: &Value) {
    let text = || value.as_str().unwrap_or_else(|| panic!("{ty}: {value}"));
    match ty {
        "string" => put(out, number, text().as_bytes()),
        "bytes" => put(out, number, &BASE64_STANDARD.decode(text()).expect("base64")),
        "bool" => put_number(out, number, u64::from(value.as_bool().expect("true or false"))),
        "int32" | "int64" => put_number(out, number, value.as_i64().expect("a number").cast_unsigned()),
        ty => {
            let message = message.named(ty);
            put(out, number, &special(&message, value).unwrap_or_else(|| written(&message, value)));
        }
    }
}

/// The messages that are no objects in JSON.
fn special(message: &Message, value: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match message.name.as_str() {
        "Time" | "MicroTime" => {
            let (seconds, nanoseconds) = time(value.as_str()?);
            put_number(&mut out, 1, seconds.cast_unsigned());
            put_number(&mut out, 2, nanoseconds);
        }
        "Quantity" => put(&mut out, 1, value.as_str()?.as_bytes()),
        "IntOrString" => match value {
            Value::String(text) => {
                put_number(&mut out, 1, 1);
                put(&mut out, 3, text.as_bytes());
            }
            value => put_number(&mut out, 2, value.as_i64()?.cast_unsigned()),
        },
        "FieldsV1" | "RawExtension" => put(&mut out, 1, value.to_string().as_bytes()),
        // A list of texts is a message of its own where it is the value of a map.
        "ExtraValue" | "Verbs" => {
            value
                .as_array()?
                .iter()
                .filter_map(Value::as_str)
                .for_each(|text| put(&mut out, 1, text.as_bytes()));
        }
        _ => return None,
    }
    Some(out)
}

fn read(message: &Message, bytes: &[u8]) -> Map<String, Value> {
    let mut object = Map::new();
    let known: Vec<_> = message.fields().collect();
    for (number, value) in fields(bytes) {
        let Some((name, _, ty)) = known.iter().find(|(_, known, _)| *known == number) else { continue };
        if let Some(ty) = ty.strip_prefix("repeated ") {
            let list = object.entry(*name).or_insert_with(|| json!([]));
            list.as_array_mut().expect("a list").push(read_value(message, ty, value));
        } else if let Some(ty) = ty.strip_prefix("map<string, ").and_then(|ty| ty.strip_suffix('>')) {
            let (mut key, mut member) = (String::new(), Value::from(""));
            for (number, value) in fields(value.bytes()) {
                if number == 1 { key = value.text() } else { member = read_value(message, ty, value) }
            }
            let map = object.entry(*name).or_insert_with(|| json!({}));
            map.as_object_mut().expect("a map").insert(key, member);
        } else if INLINED.contains(name) {
            object.append(&mut read(&message.named(ty), value.bytes()));
        } else {
            match read_value(message, ty, value) {
                Value::Null => {}
                Value::String(text) if text.is_empty() => {}
                value => drop(object.insert((*name).to_owned(), value)),
            }
        }
    }
    object
}

fn read_value(message: &Message, ty: &str, value: Wire<'_>) -> Value {
    match ty {
        "string" => value.text().into(),
        "bytes" => BASE64_STANDARD.encode(value.bytes()).into(),
        "bool" => (value.number() != 0).into(),
        "int32" => (value.number() as i32).into(),
        "int64" => value.number().cast_signed().into(),
        ty => {
            let message = message.named(ty);
            let bytes = value.bytes();
            let field = |wanted: u64| fields(bytes).filter(move |(number, _)| *number == wanted).last();
            let number = |wanted| field(wanted).map_or(0, |(_, value)| value.number());
            let text = |wanted| field(wanted).map_or_else(String::new, |(_, value)| value.text());
            match message.name.as_str() {
                "Time" if bytes.is_empty() => Value::Null,
                "Time" => shown(number(1).cast_signed(), None).into(),
                "MicroTime" if bytes.is_empty() => Value::Null,
                "MicroTime" => shown(number(1).cast_signed(), Some(number(2) / 1000)).into(),
                "Quantity" => text(1).into(),
                "IntOrString" if number(1) == 1 => text(3).into(),
                "IntOrString" => (number(2) as i32).into(),
                "FieldsV1" | "RawExtension" => {
                    let raw = field(1).map(|(_, raw)| raw.bytes()).unwrap_or_default();
                    serde_json::from_slice(raw).unwrap_or_default()
                }
                "ExtraValue" | "Verbs" => fields(bytes).map(|(_, value)| Value::from(value.text())).collect(),
                _ => read(&message, bytes).into(),
            }
        }
    }
}

/// Seconds since 1970 and nanoseconds, of a time in UTC.
fn time(text: &str) -> (i64, u64) {
    let number = |from: usize, to: usize| -> i64 {
        text.get(from..to)
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("{text} is no time"))
    };
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    // The days of the years before, counted from March, so that the leap day is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    let seconds = ((days * 24 + number(11, 13)) * 60 + number(14, 16)) * 60 + number(17, 19);
    let fraction = text.get(20..).unwrap_or_default().trim_end_matches('Z');
    let nanoseconds = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().unwrap_or(0) };
    (seconds, nanoseconds)
}

fn shown(seconds: i64, micros: Option<u64>) -> String {
    let (days, second) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    // The inverse of `time`: by cycles of 400 years, which have 146,097 days.
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) =
        (year + cycle * 400 + i64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    let fraction = micros.map(|micros| format!(".{micros:06}")).unwrap_or_default();
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}{fraction}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

fn put(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn put_number(out: &mut Vec<u8>, number: u64, value: u64) {
    put_varint(out, number << 3);
    put_varint(out, value);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[derive(Clone, Copy)]
enum Wire<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

impl<'a> Wire<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) => panic!("{number} stands where a message belongs"),
        }
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("UTF-8")
    }

    fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => panic!("a message stands where a number belongs"),
        }
    }
}

/// The fields of a message.
fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u64, Wire<'_>)> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Wire::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Wire::Bytes(value)
            }
            other => panic!("no field has wire type {other}"),
        };
        Some((key >> 3, value))
    })
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("the number is complete");
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}
