//! Makes objects of any type, and writes them in protobuf.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portcullis_apimachinery::time::Instant;
use portcullis_kinds::schema::{Field, Shape, Type};
use serde_json::{Map, Value, json};

/// Numbers that follow from a seed (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.roll(from.len() as u64) as usize]
    }
}

const TEXTS: &[&str] = &["", "a", "default", "kube-system", "ü", "a/b", "\u{1f600}", "\"\\\n"];
const QUANTITIES: &[&str] = &["0", "1", "500m", "1Gi", "1536Mi", "3k", "-2"];
const SECONDS: &[i64] = &[-62_135_596_800, -1, 0, 1_795_276_800, 253_402_300_799];
const INTEGERS: &[i64] = &[0, 1, -1, 127, 128, 65_536, 2_147_483_647, -2_147_483_648];

/// An object of a type, with some of its fields.
pub(crate) fn object(dice: &mut Dice, ty: &Type) -> Map<String, Value> {
    let some = ty.fields.iter().filter(|field| field.number > 0 && dice.roll(3) == 0).collect::<Vec<_>>();
    some.into_iter().map(|field| (field.name.to_owned(), value(dice, field.shape))).collect()
}

fn value(dice: &mut Dice, shape: Shape) -> Value {
    match shape {
        Shape::Any => {
            dice.pick(&[json!({"f:a": {".": {}}}), json!([1, -2, "x", null, true]), json!({})]).clone()
        }
        Shape::Bool => (dice.roll(2) == 0).into(),
        Shape::Bytes => {
            let length = dice.roll(4);
            let bytes: Vec<u8> = (0..length).map(|_| dice.roll(256) as u8).collect();
            BASE64_STANDARD.encode(bytes).into()
        }
        Shape::Int32 => (*dice.pick(INTEGERS)).into(),
        Shape::Int64 => (*dice.pick(&[0, 1, -1, 300, i64::MAX, i64::MIN])).into(),
        Shape::IntOrString => dice.pick(&[json!(0), json!(80), json!(-1), json!("http"), json!("")]).clone(),
        Shape::List(shape) => (0..dice.roll(3)).map(|_| value(dice, *shape)).collect(),
        Shape::Map(shape) => {
            let keys = dice.roll(3);
            let mut entry = |shape: &Shape| match shape {
                // Protobuf does not tell an empty list from none, and only lists in maps are printed differently then.
                Shape::List(item) => Value::Array(vec![value(dice, **item)]),
                shape => value(dice, *shape),
            };
            Value::Object((0..keys).map(|key| (format!("k{key}"), entry(shape))).collect())
        }
        Shape::MicroTime => {
            let nanoseconds = dice.roll(1_000_000) as u32 * 1_000;
            Instant { seconds: *dice.pick(SECONDS), nanoseconds }.to_micro().into()
        }
        Shape::Object(ty) => Value::Object(object(dice, ty)),
        Shape::Quantity => (*dice.pick(QUANTITIES)).into(),
        Shape::Text => (*dice.pick(TEXTS)).into(),
        Shape::Time => Instant::of_seconds(*dice.pick(SECONDS)).to_string().into(),
    }
}

/// A document as Kubernetes sends it.
pub(crate) fn envelope(ty: &Type, api_version: &str, object: &Map<String, Value>) -> Vec<u8> {
    let mut meta = Vec::new();
    bytes(&mut meta, 1, api_version.as_bytes());
    bytes(&mut meta, 2, ty.name.as_bytes());
    let mut out = b"k8s\0".to_vec();
    bytes(&mut out, 1, &meta);
    bytes(&mut out, 2, &message(ty, object));
    bytes(&mut out, 3, b"");
    bytes(&mut out, 4, b"");
    out
}

/// The message of an object.
pub(crate) fn message(ty: &Type, object: &Map<String, Value>) -> Vec<u8> {
    message_within(ty, object, &[])
}

/// The embedded message of an object that is at a path of numbers.
fn message_within(ty: &Type, object: &Map<String, Value>, within: &[u32]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in ty.fields.iter().filter(|field| field.within == within && field.number > 0) {
        if let Some(value) = object.get(field.name) {
            put_field(&mut out, field, value);
        }
    }
    let mut embedded: Vec<&[u32]> =
        ty.fields.iter().filter(|field| field.within.starts_with(within)).map(|field| field.within).collect();
    embedded.retain(|path| path.len() > within.len());
    embedded.iter_mut().for_each(|path| *path = &path[..=within.len()]);
    embedded.sort_unstable();
    embedded.dedup();
    for path in embedded {
        bytes(&mut out, path[within.len()], &message_within(ty, object, path));
    }
    out
}

fn put_field(out: &mut Vec<u8>, field: &Field, value: &Value) {
    match (field.shape, value) {
        (Shape::List(shape), Value::Array(items)) => {
            items.iter().for_each(|item| put(out, field.number, *shape, item))
        }
        (Shape::Map(shape), Value::Object(members)) => {
            for (key, value) in members {
                let mut entry = Vec::new();
                bytes(&mut entry, 1, key.as_bytes());
                if let (Shape::List(item), Value::Array(items)) = (shape, value) {
                    let mut list = Vec::new();
                    items.iter().for_each(|value| put(&mut list, 1, **item, value));
                    bytes(&mut entry, 2, &list);
                } else {
                    put(&mut entry, 2, *shape, value);
                }
                bytes(out, field.number, &entry);
            }
        }
        (shape, value) => put(out, field.number, shape, value),
    }
}

fn put(out: &mut Vec<u8>, number: u32, shape: Shape, value: &Value) {
    let text = || value.as_str().unwrap();
    match shape {
        Shape::Any => {
            let mut inner = Vec::new();
            bytes(&mut inner, 1, value.to_string().as_bytes());
            bytes(out, number, &inner);
        }
        Shape::Bool => varint(out, number, value.as_bool().unwrap().into()),
        Shape::Bytes => bytes(out, number, &BASE64_STANDARD.decode(text()).unwrap()),
        Shape::Int32 | Shape::Int64 => varint(out, number, value.as_i64().unwrap().cast_unsigned()),
        Shape::IntOrString => {
            let mut inner = Vec::new();
            match value {
                Value::String(text) => {
                    varint(&mut inner, 1, 1);
                    varint(&mut inner, 2, 0);
                    bytes(&mut inner, 3, text.as_bytes());
                }
                value => {
                    varint(&mut inner, 1, 0);
                    varint(&mut inner, 2, value.as_i64().unwrap().cast_unsigned());
                    bytes(&mut inner, 3, b"");
                }
            }
            bytes(out, number, &inner);
        }
        Shape::MicroTime => time(out, number, Instant::parse_micro(text()).unwrap()),
        Shape::Time => time(out, number, Instant::parse(text()).unwrap()),
        Shape::Object(ty) => bytes(out, number, &message(ty, value.as_object().unwrap())),
        Shape::Quantity => {
            let mut inner = Vec::new();
            bytes(&mut inner, 1, text().as_bytes());
            bytes(out, number, &inner);
        }
        Shape::Text => bytes(out, number, text().as_bytes()),
        Shape::List(_) | Shape::Map(_) => panic!("a list lies in a field or a map"),
    }
}

/// Go's zero time is an empty message.
fn time(out: &mut Vec<u8>, number: u32, time: Instant) {
    let mut inner = Vec::new();
    if time != Instant::ZERO {
        varint(&mut inner, 1, time.seconds.cast_unsigned());
        varint(&mut inner, 2, time.nanoseconds.into());
    }
    bytes(out, number, &inner);
}

fn key(out: &mut Vec<u8>, number: u32, wire: u64) {
    raw(out, (u64::from(number) << 3) | wire);
}

/// Adds a number.
pub(crate) fn varint(out: &mut Vec<u8>, number: u32, value: u64) {
    key(out, number, 0);
    raw(out, value);
}

/// Adds bytes, a text or a message.
pub(crate) fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    key(out, number, 2);
    raw(out, value.len() as u64);
    out.extend(value);
}

fn raw(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
