//! Documents of every kind with a long list or map.

use portcullis_kinds::Map;
use portcullis_kinds::resource::Resource;
use portcullis_kinds::schema::{Field, Shape, Type};
use serde_json::{Value, json};

/// The deepest nesting of generated objects.
const DEPTH: usize = 9;
/// How the entries of a list are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Each entry is another one.
    Distinct,
    /// All texts are equal, so that entries have the same key.
    Equal,
    /// As [`Variant::Distinct`], with as many entries in the lists next to it and at the top.
    Together,
}

pub(crate) const VARIANTS: [Variant; 3] = [Variant::Distinct, Variant::Equal, Variant::Together];

/// A list or a map of a kind.
#[derive(Clone)]
pub(crate) struct Place {
    /// The names of the fields that lead to it.
    pub(crate) way: Vec<&'static str>,
    /// The type that has it as a field.
    pub(crate) owner: &'static Type,
}

/// The lists and maps of a kind.
pub(crate) fn places_of(row: &Resource) -> Vec<Place> {
    let mut found = Vec::new();
    places(row.schema, &mut Vec::new(), &mut Vec::new(), &mut found);
    found
}

/// Collects the lists and maps below a type.
fn places(
    ty: &'static Type,
    way: &mut Vec<&'static str>,
    types: &mut Vec<&'static str>,
    found: &mut Vec<Place>,
) {
    let is_template = way.last() == Some(&"template") && !types.contains(&"Deployment");
    if way.len() > DEPTH || types.contains(&ty.name) || (is_template && ty.name == "PodTemplateSpec") {
        return;
    }
    types.push(ty.name);
    for field in ty.fields.iter().filter(|field| field.name != "*") {
        way.push(field.name);
        let mut shape = field.shape;
        loop {
            match shape {
                Shape::List(inner) | Shape::Map(inner) => {
                    found.push(Place { way: way.clone(), owner: ty });
                    shape = *inner;
                    if matches!(shape, Shape::List(_) | Shape::Map(_)) {
                        break;
                    }
                }
                Shape::Object(inner) => {
                    places(inner, way, types, found);
                    break;
                }
                _ => break,
            }
        }
        way.pop();
    }
    types.pop();
}

/// Whether a field holds the type that it is a field of. Only the way to the place is followed there.
fn is_within(ty: &Type, mut shape: Shape) -> bool {
    while let Shape::List(inner) | Shape::Map(inner) = shape {
        shape = *inner;
    }
    matches!(shape, Shape::Object(inner) if inner.name == ty.name)
}

/// Makes the documents of a kind.
#[derive(Clone, Copy)]
pub(crate) struct Maker {
    pub(crate) count: usize,
    pub(crate) variant: Variant,
    /// Whether the lists at the top are long as well.
    pub(crate) is_wide: bool,
}

impl Maker {
    pub(crate) fn document(self, row: &'static Resource, place: &[&'static str]) -> Map {
        let Value::Object(mut map) = self.object(row.schema, Some(place), 0, 0) else { panic!("no object") };
        map.insert("kind".into(), row.kind.into());
        map.insert("apiVersion".into(), row.api_version().into());
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("deletionTimestamp");
            metadata.insert("name".into(), "a".into());
        }
        map
    }

    /// An object with all fields; beside the way to the place only small ones.
    fn object(self, ty: &'static Type, place: Option<&[&'static str]>, index: usize, depth: usize) -> Value {
        let mut map = Map::new();
        for field in ty.fields.iter().filter(|field| field.name != "*") {
            let on_way = place.filter(|place| place.first() == Some(&field.name)).map(|place| &place[1..]);
            let is_large = depth > DEPTH || (depth > 3 && matches!(field.shape, Shape::Object(_)));
            if (is_large || is_within(ty, field.shape)) && on_way.is_none() {
                continue;
            }
            let is_beside = place.map_or(self.is_wide && depth <= 2 && index == 0, |place| place.len() <= 1);
            let is_list = matches!(field.shape, Shape::List(_) | Shape::Map(_));
            let is_long = self.variant == Variant::Together && is_list && is_beside;
            let on_way = on_way.or_else(|| is_long.then_some(&[][..]));
            map.insert(field.name.to_owned(), self.value(field, field.shape, on_way, index, depth));
        }
        Value::Object(map)
    }

    /// A value of a shape. `place` is the rest of the way to the list that is long.
    fn value(
        self,
        field: &Field,
        shape: Shape,
        place: Option<&[&'static str]>,
        index: usize,
        depth: usize,
    ) -> Value {
        let count = if place == Some(&[]) { self.count } else { 1 };
        let inner_place = place.filter(|place| !place.is_empty());
        let of = |inner: Shape, i: usize| {
            self.value(field, inner, inner_place, if count == 1 { index } else { i }, depth)
        };
        match shape {
            Shape::Any => json!({ "a": index }),
            Shape::Bool => json!(true),
            Shape::Bytes => json!("YQ=="),
            Shape::Int32 | Shape::Int64 | Shape::IntOrString => json!(index + 1),
            Shape::List(inner) => (0..count).map(|i| of(*inner, i)).collect(),
            Shape::Map(inner) => {
                Value::Object((0..count).map(|i| (format!("key-{i}"), of(*inner, i))).collect())
            }
            Shape::MicroTime => json!("2026-01-02T03:04:05.000000Z"),
            Shape::Object(ty) => self.object(ty, place, index, depth + 1),
            Shape::Quantity => json!((index + 1).to_string()),
            Shape::Text => self.text(field.name, index),
            Shape::Time => json!("2026-01-02T03:04:05Z"),
        }
    }

    fn text(self, name: &str, index: usize) -> Value {
        let index = if self.variant == Variant::Equal { 1 } else { index };
        match name {
            "apiVersion" => json!("v1"),
            "ip" | "clusterIP" | "podIP" | "hostIP" => {
                json!(format!("10.{}.{}.{}", index / 65536, index / 256 % 256, index % 256))
            }
            "mountPath" => json!(format!("/m/{index}")),
            _ => json!(format!("a-{index}")),
        }
    }
}

/// Turns the lists at a place around.
pub(crate) fn turn(value: &mut Value, place: &[&'static str]) {
    match (value, place) {
        (Value::Array(list), []) => list.reverse(),
        (Value::Array(list), _) => list.iter_mut().for_each(|entry| turn(entry, place)),
        (Value::Object(map), [first, rest @ ..]) => match map.get_mut(*first) {
            Some(inner) => turn(inner, rest),
            None => map
                .values_mut()
                .for_each(|inner| turn(inner.get_mut(*first).unwrap_or(&mut Value::Null), rest)),
        },
        _ => {}
    }
}

/// Operations of a JSON patch that touch each entry at a place, of the first list where there are several.
pub(crate) fn patch_operations(object: &Map, place: &[&'static str]) -> Value {
    let object = Value::Object(object.clone());
    let (mut value, mut pointer) = (&object, String::new());
    for name in place {
        // The entries of lists and maps have no names in a place.
        while let Some((key, entry)) = match value {
            Value::Array(list) => list.first().map(|entry| ("0".to_owned(), entry)),
            Value::Object(map) if !map.contains_key(*name) => map.iter().next().map(|(k, v)| (k.clone(), v)),
            _ => None,
        } {
            value = entry;
            pointer = format!("{pointer}/{key}");
        }
        let Some(inner) = value.get(*name) else { return json!([]) };
        value = inner;
        pointer = format!("{pointer}/{name}");
    }
    let entries: Vec<(String, &Value)> = match value {
        Value::Array(list) => list.iter().enumerate().map(|(i, entry)| (i.to_string(), entry)).collect(),
        Value::Object(map) => map.iter().map(|(key, entry)| (key.clone(), entry)).collect(),
        _ => Vec::new(),
    };
    let mut operations = Vec::new();
    for (key, entry) in &entries {
        for op in ["test", "replace"] {
            operations.push(json!({ "op": op, "path": format!("{pointer}/{key}"), "value": entry }));
        }
    }
    if value.is_array() {
        for (_, entry) in &entries {
            operations.push(json!({ "op": "add", "path": format!("{pointer}/-"), "value": entry }));
        }
    }
    operations.into()
}
