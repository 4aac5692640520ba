//! The structural schema of a version of a custom kind, read from its definition: what fields objects have, their
//! types and defaults, and what their values must be. Descriptions and examples are not kept.

use std::sync::LazyLock;

use serde_json::Value;

use super::formats::Format;
use crate::Map;
use crate::fields::Members;

/// The type of a value in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonType {
    /// A list.
    Array,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// An object, with known members or as a map.
    Object,
    /// A text.
    String,
}

impl JsonType {
    /// All types, by name.
    pub(crate) const NAMES: [&'static str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "array" => Self::Array,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "object" => Self::Object,
            "string" => Self::String,
            _ => return None,
        })
    }

    /// The name in schemas.
    pub fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

/// How the entries of a list are told apart (`x-kubernetes-list-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// They are not: the list is one value.
    #[default]
    Atomic,
    /// By some of their members, which are unique.
    Map,
    /// By their values, which are unique.
    Set,
}

/// The schema of members that `properties` does not list (`additionalProperties`).
#[derive(Debug)]
pub enum Additional {
    /// Any (`additionalProperties: true`).
    Any,
    /// Values of this schema.
    Of(Schema),
}

/// A structural schema, or a part of one.
#[derive(Debug, Default)]
pub struct Schema {
    /// The type of values; none if only rules are given, or any type is allowed.
    pub kind: Option<JsonType>,
    /// Whether `null` is a value.
    pub is_nullable: bool,
    /// Whether members without a schema are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserves_unknown: bool,
    /// Whether values are API objects (`x-kubernetes-embedded-resource`).
    pub is_embedded: bool,
    /// Whether values are numbers or texts (`x-kubernetes-int-or-string`).
    pub is_int_or_string: bool,
    /// Whether an object is one value (`x-kubernetes-map-type: atomic`).
    pub is_atomic: bool,
    /// How the entries of a list are told apart.
    pub list_type: ListType,
    /// The schemas of members, by name.
    properties: Box<[(Box<str>, Schema)]>,
    /// The schema of other members.
    pub additional: Option<Box<Additional>>,
    /// The schema of the entries of a list.
    pub items: Option<Box<Schema>>,
    /// The value of a member that is not given.
    pub default: Option<Box<Value>>,
    /// The rarely used parts, apart to keep schemas small.
    more: Option<Box<More>>,
}

/// The rarely used parts of a schema.
#[derive(Debug, Default)]
struct More {
    list_keys: Box<[Box<str>]>,
    limits: Limits,
    rules: Box<[Rule]>,
}

/// The limits on values, apart from their type.
#[derive(Debug, Default)]
pub struct Limits {
    /// The format of texts, or the size of numbers.
    pub format: Option<Format>,
    /// The smallest number.
    pub minimum: Option<f64>,
    /// The largest number.
    pub maximum: Option<f64>,
    /// Whether the number must be larger than the smallest.
    pub is_minimum_exclusive: bool,
    /// Whether the number must be smaller than the largest.
    pub is_maximum_exclusive: bool,
    /// The number of which the value is a multiple.
    pub multiple_of: Option<f64>,
    /// The fewest characters.
    pub min_length: Option<u64>,
    /// The most characters.
    pub max_length: Option<u64>,
    /// The regular expression that a text matches, in the syntax of Go.
    pub pattern: Option<Box<str>>,
    /// The fewest entries.
    pub min_items: Option<u64>,
    /// The most entries.
    pub max_items: Option<u64>,
    /// The fewest members.
    pub min_properties: Option<u64>,
    /// The most members.
    pub max_properties: Option<u64>,
    /// The members that must be given.
    pub required: Box<[Box<str>]>,
    /// The only values.
    pub values: Option<Box<[Value]>>,
    /// Schemas that must all hold.
    pub all_of: Box<[Schema]>,
    /// Schemas of which one must hold.
    pub any_of: Box<[Schema]>,
    /// Schemas of which exactly one must hold.
    pub one_of: Box<[Schema]>,
    /// The schema that must not hold.
    pub not: Option<Box<Schema>>,
}

/// The most comparisons that each value of an object can take on a thread that serves requests. Objects that are not small
/// never are checked there.
const MAX_CHEAP_COMPARISONS: usize = 256;

static NO_LIMITS: LazyLock<Limits> = LazyLock::new(Limits::default);

/// A rule in CEL (`x-kubernetes-validations`).
#[derive(Clone, Debug)]
pub struct Rule {
    /// The expression.
    pub rule: Box<str>,
    /// The message if it does not hold; empty for one made of the rule.
    pub message: Box<str>,
    /// An expression for the message; empty for none.
    pub message_expression: Box<str>,
    /// The reason of the error; empty for `FieldValueInvalid`.
    pub reason: Box<str>,
    /// The field of the error below this one; empty for this one.
    pub field_path: Box<str>,
    /// Whether the old value is optional, so that the rule also holds for new ones.
    pub optional_old_self: Option<bool>,
}

impl Schema {
    /// Reads a schema, which was validated: what is not understood is left out.
    pub fn read(props: &Map) -> Self {
        let properties = props.object("properties").iter();
        let mut properties: Box<[(Box<str>, Self)]> = properties
            .filter_map(|(name, schema)| Some((name.as_str().into(), Self::read(schema.as_object()?))))
            .collect();
        properties.sort_by(|(a, _), (b, _)| a.cmp(b));
        let additional = match props.get("additionalProperties") {
            Some(Value::Object(schema)) => Some(Box::new(Additional::Of(Self::read(schema)))),
            Some(Value::Bool(true)) => Some(Box::new(Additional::Any)),
            _ => None,
        };
        Self {
            kind: JsonType::named(props.text("type")),
            is_nullable: props.is_true("nullable"),
            preserves_unknown: props.is_true("x-kubernetes-preserve-unknown-fields"),
            is_embedded: props.is_true("x-kubernetes-embedded-resource"),
            is_int_or_string: props.is_true("x-kubernetes-int-or-string"),
            is_atomic: props.text("x-kubernetes-map-type") == "atomic",
            list_type: match props.text("x-kubernetes-list-type") {
                "map" => ListType::Map,
                "set" => ListType::Set,
                _ => ListType::Atomic,
            },
            properties,
            additional,
            items: props.object_if_set("items").map(|items| Box::new(Self::read(items))),
            default: props.get("default").filter(|value| !value.is_null()).cloned().map(Box::new),
            more: More::read(props),
        }
    }

    /// The schema of a member that has one.
    pub fn property(&self, name: &str) -> Option<&Self> {
        let at = self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.properties.get(at).map(|(_, schema)| schema)
    }

    /// The members that have a schema, by name.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.properties.iter().map(|(name, schema)| (&**name, schema))
    }

    /// Whether any member has a schema of its own.
    pub fn has_properties(&self) -> bool {
        !self.properties.is_empty()
    }

    /// The schema of members that have none of their own, if there is one.
    pub fn additional(&self) -> Option<&Self> {
        match self.additional.as_deref()? {
            Additional::Of(schema) => Some(schema),
            Additional::Any => None,
        }
    }

    /// The schema of a member, its own or that of all others.
    pub fn member(&self, name: &str) -> Option<&Self> {
        self.property(name).or_else(|| self.additional())
    }

    /// The members by which the entries of a list of type `map` are told apart.
    pub fn list_keys(&self) -> &[Box<str>] {
        self.more.as_ref().map_or(&[], |more| &more.list_keys)
    }

    /// The limits on values.
    pub fn limits(&self) -> &Limits {
        self.more.as_ref().map_or_else(|| &*NO_LIMITS, |more| &more.limits)
    }

    /// The rules in CEL of this value, without those of its parts.
    pub fn rules(&self) -> &[Rule] {
        self.more.as_ref().map_or(&[], |more| &more.rules)
    }

    /// Whether checking a small object can take long: a pattern has to be compiled, or values are compared with many
    /// alternatives.
    pub fn is_costly(&self) -> bool {
        self.comparisons(false).is_none_or(|comparisons| comparisons > MAX_CHEAP_COMPARISONS)
    }

    /// How many values of enumerations, and schemas within `allOf` and the like, this schema has; none if it has a pattern.
    fn comparisons(&self, is_alternative: bool) -> Option<usize> {
        let limits = self.limits();
        if limits.pattern.is_some() {
            return None;
        }
        let own = usize::from(is_alternative) + limits.values.as_ref().map_or(0, |values| values.len());
        let alternatives = [&limits.all_of, &limits.any_of, &limits.one_of].into_iter().flatten();
        let alternatives = alternatives.chain(limits.not.as_deref()).map(|schema| (schema, true));
        let parts = self.properties.iter().map(|(_, schema)| schema);
        let parts = parts.chain(self.items.as_deref()).chain(self.additional());
        let inner = alternatives.chain(parts.map(|schema| (schema, is_alternative)));
        inner
            .map(|(schema, is_alternative)| schema.comparisons(is_alternative))
            .try_fold(own, |sum, inner| Some(sum.saturating_add(inner?)))
    }

    /// Whether this or a part of it has a rule in CEL.
    pub fn has_rules(&self) -> bool {
        !self.rules().is_empty()
            || self.properties.iter().any(|(_, schema)| schema.has_rules())
            || self.items.as_ref().is_some_and(|items| items.has_rules())
            || self.additional().is_some_and(Self::has_rules)
    }
}

impl More {
    fn read(props: &Map) -> Option<Box<Self>> {
        let list_keys: Box<[Box<str>]> = props.texts("x-kubernetes-list-map-keys").map(Into::into).collect();
        let rules: Box<[Rule]> = props.objects("x-kubernetes-validations").map(Rule::read).collect();
        let limits = Limits::read(props);
        let is_empty = list_keys.is_empty() && rules.is_empty() && limits.is_none();
        (!is_empty).then(|| Box::new(Self { list_keys, limits: limits.unwrap_or_default(), rules }))
    }
}

impl Limits {
    /// The members of a schema that are read here.
    const MEMBERS: [&'static str; 18] = [
        "format",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "required",
        "enum",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "exclusiveMinimum",
    ];

    fn read(props: &Map) -> Option<Self> {
        if !Self::MEMBERS.iter().any(|name| props.contains_key(*name)) {
            return None;
        }
        let number = |name: &str| props.get(name).and_then(Value::as_f64);
        let count = |name: &str| props.get(name).and_then(Value::as_i64).map(|n| n.try_into().unwrap_or(0));
        let schemas = |name: &str| props.objects(name).map(Schema::read).collect();
        Some(Self {
            format: Format::named(props.text("format")),
            minimum: number("minimum"),
            maximum: number("maximum"),
            is_minimum_exclusive: props.is_true("exclusiveMinimum"),
            is_maximum_exclusive: props.is_true("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: Some(props.text("pattern")).filter(|text| !text.is_empty()).map(Into::into),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            required: props.texts("required").map(Into::into).collect(),
            values: Some(props.list("enum")).filter(|list| !list.is_empty()).map(Into::into),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: props.object_if_set("not").map(|not| Box::new(Schema::read(not))),
        })
    }
}

impl Rule {
    fn read(rule: &Map) -> Self {
        Self {
            rule: rule.text("rule").into(),
            message: rule.text("message").into(),
            message_expression: rule.text("messageExpression").into(),
            reason: rule.text("reason").into(),
            field_path: rule.text("fieldPath").into(),
            optional_old_self: rule.flag("optionalOldSelf"),
        }
    }
}
