//! The OpenAPI schemas of types.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::descriptions::Descriptions;
use crate::Map;
use crate::apply::Typed;
use crate::apply::schema::{Schema as _, Structure};
use crate::resource::Resource;
use crate::schema::{self, Field, Merge, Ownership, Presence, REST, Required, Shape, Type, meta};

/// The schema of quantities.
pub(super) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// The schema of numbers that can be texts.
pub(super) const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
/// Which kinds a schema is of.
const KINDS: &str = "x-kubernetes-group-version-kind";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";

/// The schemas of a document, without duplicates.
pub(super) struct Schemas<'a> {
    /// What types and fields mean.
    descriptions: &'a Descriptions,
    /// By their names: `io.k8s.api.core.v1.Pod`.
    pub(super) found: Map,
    /// The schemas of custom kinds that are not yet among them, as their definitions have them.
    custom: BTreeMap<String, Map>,
}

impl<'a> Schemas<'a> {
    /// No schemas yet.
    pub(super) fn new(descriptions: &'a Descriptions) -> Self {
        Self { descriptions, found: Map::new(), custom: BTreeMap::new() }
    }

    /// Adds custom kinds with their schemas, as their definitions have them.
    pub(super) fn add_custom(&mut self, kinds: Vec<(&'static Resource, Map)>) {
        self.custom.extend(kinds.into_iter().map(|(resource, schema)| (custom_name(resource), schema)));
    }

    /// Returns a reference to the schema of a type, and adds that schema with all that it refers to.
    pub(super) fn of(&mut self, ty: &'static Type) -> Value {
        let name = name(ty);
        if !self.found.contains_key(&name) {
            // Reserve the entry first, because types may be recursive.
            self.found.insert(name.clone(), Value::Null);
            let schema = self.object(ty);
            self.found.insert(name.clone(), schema);
        }
        reference(&name)
    }

    /// A reference to the schema of the objects of a kind.
    pub(super) fn of_kind(&mut self, resource: &Resource) -> Value {
        if resource.custom.is_some() {
            return self.of_custom(resource);
        }
        let reference = self.of(resource.schema);
        if let Some(Value::Object(schema)) = self.found.get_mut(&name(resource.schema)) {
            let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
            schema.entry(KINDS).or_insert_with(|| json!([kind]));
        }
        reference
    }

    /// A reference to the schema of the list of a kind.
    pub(super) fn list_of(&mut self, resource: &Resource) -> Value {
        let (name, items) = match resource.custom {
            Some(_) => (format!("{}List", custom_name(resource)), self.of_custom(resource)),
            None => (format!("{}List", name(resource.schema)), self.of(resource.schema)),
        };
        let metadata = self.of(&meta::LIST_META);
        let kind = resource.list_kind();
        let member = |name: &str, schema: Value| described(schema, self.descriptions.of_list(name));
        let schema = json!({
            "description": format!("A list of objects of the kind {}.", resource.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": member("apiVersion", json!({"type": "string"})),
                "kind": member("kind", json!({"type": "string"})),
                "metadata": member("metadata", metadata),
                "items": member("items", json!({"type": "array", "items": items})),
            },
            "x-kubernetes-group-version-kind":
                [{"group": resource.group, "version": resource.version, "kind": kind}],
        });
        self.found.insert(name.clone(), schema);
        reference(&name)
    }

    /// A reference to the schema of the objects of a custom kind.
    fn of_custom(&mut self, resource: &Resource) -> Value {
        let name = custom_name(resource);
        if let Some(mut schema) = self.custom.remove(&name) {
            let metadata = self.of(&meta::OBJECT_META);
            let properties = schema.entry("properties").or_insert_with(|| json!({}));
            if let Some(properties) = properties.as_object_mut() {
                let text = json!({"type": "string"});
                for (name, schema) in [("apiVersion", text.clone()), ("kind", text), ("metadata", metadata)] {
                    let schema = described(schema, self.descriptions.of_object(name));
                    properties.insert(name.to_owned(), schema);
                }
            }
            let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
            schema.insert(KINDS.to_owned(), json!([kind]));
            self.found.insert(name.clone(), schema.into());
        }
        reference(&name)
    }

    fn object(&mut self, ty: &'static Type) -> Value {
        let mut properties = Map::new();
        for field in ty.fields.iter().filter(|field| field.name != REST) {
            properties.insert(field.name.to_owned(), self.field(ty, field));
        }
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        if let Some(text) = self.descriptions.of_type(ty) {
            schema.insert("description".to_owned(), text.into());
        }
        schema.insert("properties".to_owned(), properties.into());
        let required: Value =
            ty.fields.iter().filter(|field| is_required(field)).map(|field| field.name).collect();
        if required != json!([]) {
            schema.insert("required".to_owned(), required);
        }
        if ty.is_atomic {
            schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        if ty.rest().is_some() {
            schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        }
        if let Some((group, version)) = schema::group_version(ty) {
            let kinds = json!([{"group": group, "version": version, "kind": ty.name}]);
            schema.insert(KINDS.to_owned(), kinds);
        }
        schema.into()
    }

    fn field(&mut self, ty: &Type, field: &Field) -> Value {
        let mut schema = self.shape(field.shape);
        restrict(&mut schema, field.values);
        let text = self.descriptions.of_field(ty, field).map(|text| ("description", text.into()));
        extended(schema, text.into_iter().chain(patched(field)).chain(owned(field)))
    }

    fn shape(&mut self, shape: Shape) -> Value {
        match shape {
            Shape::Any => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Bytes => json!({"type": "string", "format": "byte"}),
            Shape::Int32 => json!({"type": "integer", "format": "int32"}),
            Shape::Int64 => json!({"type": "integer", "format": "int64"}),
            Shape::IntOrString => {
                let kinds = json!([{"type": "integer"}, {"type": "string"}]);
                self.scalar(INT_OR_STRING, json!({"format": "int-or-string", "oneOf": kinds}))
            }
            Shape::List(shape) => json!({"type": "array", "items": self.shape(*shape)}),
            Shape::Map(shape) => json!({"type": "object", "additionalProperties": self.shape(*shape)}),
            Shape::MicroTime => self.scalar(MICRO_TIME, json!({"type": "string", "format": "date-time"})),
            Shape::Object(ty) => self.of(ty),
            Shape::Quantity => {
                self.scalar(QUANTITY, json!({"oneOf": [{"type": "string"}, {"type": "number"}]}))
            }
            Shape::Text => json!({"type": "string"}),
            Shape::Time => self.scalar(TIME, json!({"type": "string", "format": "date-time"})),
        }
    }

    fn scalar(&mut self, name: &str, schema: Value) -> Value {
        let text = name.rsplit('.').next().and_then(|name| self.descriptions.of_scalar(name));
        self.found.entry(name).or_insert_with(|| described(schema, text));
        reference(name)
    }
}

/// A schema with what it means, if that is known.
fn described(schema: Value, text: Option<&str>) -> Value {
    extended(schema, text.map(|text| ("description", text.into())))
}

/// A schema with further members.
fn extended(schema: Value, members: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let mut members = members.into_iter().peekable();
    if members.peek().is_none() {
        return schema;
    }
    // A `$ref` must not have siblings.
    let mut schema = match schema {
        Value::Object(schema) if !schema.contains_key("$ref") => schema,
        reference => Map::from_iter([("allOf".to_owned(), json!([reference]))]),
    };
    schema.extend(members.map(|(name, value)| (name.to_owned(), value)));
    schema.into()
}

/// The extensions that tell how a strategic merge patch treats a field.
fn patched(field: &Field) -> Vec<(&'static str, Value)> {
    let (strategy, key) = match field.merge {
        Merge::Default => return Vec::new(),
        Merge::ByKey(key) => ("merge", Some(key)),
        Merge::ByKeyRetaining(key) => ("merge,retainKeys", Some(key)),
        Merge::Replace => ("replace", None),
        Merge::Retaining => ("retainKeys", None),
        Merge::Set => ("merge", None),
    };
    let key = key.map(|key| ("x-kubernetes-patch-merge-key", key.into()));
    [("x-kubernetes-patch-strategy", strategy.into())].into_iter().chain(key).collect()
}

/// The extensions that tell how server-side apply treats a field, unless its type tells it.
fn owned(field: &Field) -> Vec<(&'static str, Value)> {
    let default = field.default.map(|default| ("default", default.into()));
    let typed = Typed::of_field(field);
    let kind = match (typed.structure(), field.ownership) {
        (Structure::AtomicList, _) => vec![("x-kubernetes-list-type", "atomic".into())],
        (Structure::Set, _) => vec![("x-kubernetes-list-type", "set".into())],
        (Structure::KeyedList, _) => {
            let keys: Value = typed.keys().map(|key| key.name).collect();
            vec![("x-kubernetes-list-type", "map".into()), ("x-kubernetes-list-map-keys", keys)]
        }
        (Structure::AtomicMap, Ownership::Atomic) => vec![("x-kubernetes-map-type", "atomic".into())],
        (_, Ownership::Granular) => vec![("x-kubernetes-map-type", "granular".into())],
        _ => Vec::new(),
    };
    kind.into_iter().chain(default).collect()
}

/// Limits a text, or the texts of a list or map, to these values, sorted as Kubernetes sorts them.
fn restrict(schema: &mut Value, values: &[&str]) {
    let Value::Object(members) = schema else { return };
    if values.is_empty() {
        return;
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = members.get_mut(inner) {
            return restrict(inner, values);
        }
    }
    let mut values = values.to_vec();
    values.sort_unstable();
    members.insert("enum".to_owned(), values.into());
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Returns whether objects must have the field. Usually they must if Go always prints it.
fn is_required(field: &Field) -> bool {
    let is_plain = matches!(
        field.shape,
        Shape::Bool
            | Shape::Bytes
            | Shape::Int32
            | Shape::Int64
            | Shape::List(_)
            | Shape::Map(_)
            | Shape::Text
    );
    match field.required {
        Required::Usual => field.presence == Presence::Always && is_plain,
        Required::No => false,
        Required::Yes => true,
    }
}

/// The name of a custom kind: `com.example.stable.v1.CronTab`.
fn custom_name(resource: &Resource) -> String {
    let group = resource.group.rsplit('.').collect::<Vec<_>>().join(".");
    format!("{group}.{}.{}", resource.version, resource.kind)
}

/// The name of a type: `io.k8s.api.core.v1.Pod`, `io.openshift.machine.v1beta1.Machine`.
fn name(ty: &Type) -> String {
    let (group, version) = ty.package.split_once('/').unwrap_or((ty.package, ""));
    let package = match group {
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions".to_owned(),
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis.apiregistration".to_owned(),
        "meta" => "io.k8s.apimachinery.pkg.apis.meta".to_owned(),
        group if group.contains('.') => group.rsplit('.').collect::<Vec<_>>().join("."),
        group => format!("io.k8s.api.{group}"),
    };
    format!("{package}.{version}.{}", ty.name)
}
