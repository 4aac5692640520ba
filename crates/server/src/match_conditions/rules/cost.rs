//! Estimates what rules cost, from what their schema says about the size of values: as Kubernetes does, in fewer steps. A
//! definition whose rules could cost too much is refused.

use kinds::custom::{Format, JsonType, Schema};
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use portcullis_apimachinery::cel;

use crate::match_conditions::compile::Expression;
use crate::match_conditions::macros::{self, OPTIONAL, PAIRS, PRESENT};
use crate::match_conditions::selection::{FIELD, OPTIONAL_FIELD};

/// The maximum estimated cost of a rule, for all values of an object.
pub(super) const MAX_RULE: u64 = 10_000_000;
/// The maximum estimated cost of all rules of a schema together.
pub(super) const MAX_TOTAL: u64 = 100_000_000;
/// The largest request, in bytes: how much there can be where the schema has no limit.
const REQUEST: u64 = 3 << 20;
/// The cost of making a list, and of making a map.
const LIST: u64 = 10;
const MAP: u64 = 30;
/// Going through this many bytes of a text costs one, and so does this part of a pattern.
const TEXT_STEP: u64 = 10;
const PATTERN_STEP: u64 = 4;

/// How many values of a schema an object can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cardinality {
    /// At most this many.
    Most(u64),
    /// As many as there is room for, each of at least this size.
    Unbounded(u64),
}

impl Cardinality {
    pub(super) const ONE: Self = Self::Most(1);

    /// For the parts of a value: at most this many, if that is known, each of at least this size.
    pub(super) fn times(self, (most, smallest): (Option<u64>, u64)) -> Self {
        match (self, most) {
            (Self::Most(of), Some(most)) => Self::Most(of.saturating_mul(most)),
            _ => Self::Unbounded(smallest),
        }
    }

    /// The cost of an expression for all of them.
    pub(super) fn cost(self, of_one: u64) -> u64 {
        of_one.saturating_mul(match self {
            Self::Most(count) => count,
            Self::Unbounded(size) => REQUEST / size.saturating_add(1),
        })
    }
}

/// The most entries of a list, and the least size of each.
pub(super) fn entries(schema: &Schema) -> (Option<u64>, u64) {
    (schema.limits().max_items, schema.items.as_deref().map_or(1, least))
}

/// The most members of a map, and the least size of each.
pub(super) fn members(schema: &Schema) -> (Option<u64>, u64) {
    (schema.limits().max_properties, schema.additional().map_or(1, least).saturating_add(6))
}

/// The least size of a value as text.
fn least(schema: &Schema) -> u64 {
    if schema.is_int_or_string {
        return 1;
    }
    match (schema.kind, schema.limits().format) {
        (Some(JsonType::Array | JsonType::String), None) => 2,
        (Some(JsonType::String), Some(Format::Date)) => 12,
        (Some(JsonType::String), Some(Format::DateTime)) => 22,
        (Some(JsonType::String | JsonType::Array), Some(_)) => 2,
        (Some(JsonType::Boolean), _) => 4,
        (Some(JsonType::Integer | JsonType::Number) | None, _) => 1,
        (Some(JsonType::Object), _) => {
            let required = schema.limits().required.iter();
            let of_members = required.filter_map(|name| {
                let size = least(schema.property(name)?).saturating_add(4);
                Some(size.saturating_add(u64::try_from(name.len()).ok()?))
            });
            of_members.fold(2, u64::saturating_add)
        }
    }
}

/// The largest size of a value: the bytes of a text, or how many parts a list or a map has.
fn size(schema: &Schema) -> u64 {
    let limits = schema.limits();
    match schema.kind {
        _ if schema.is_int_or_string => REQUEST,
        Some(JsonType::String) => match (&limits.values, limits.format, limits.max_length) {
            (Some(values), _, _) => {
                let lengths = values.iter().map(|value| value.as_str().unwrap_or_default().len());
                u64::try_from(lengths.max().unwrap_or_default()).unwrap_or(REQUEST)
            }
            (None, _, Some(most)) => most.saturating_mul(4),
            (None, Some(Format::Date | Format::DateTime | Format::Duration), None) => 32,
            (None, _, None) => REQUEST - 2,
        },
        Some(JsonType::Array) => {
            let (most, smallest) = entries(schema);
            most.unwrap_or(REQUEST / smallest.saturating_add(1))
        }
        Some(JsonType::Object) => match schema.additional() {
            Some(_) => {
                let (most, smallest) = members(schema);
                most.unwrap_or(REQUEST / smallest.saturating_add(1))
            }
            None => u64::try_from(schema.properties().count()).unwrap_or(REQUEST),
        },
        Some(JsonType::Boolean | JsonType::Integer | JsonType::Number) => 1,
        None => REQUEST,
    }
}

/// The estimated cost of an expression for one value of a schema.
pub(super) fn of(expression: &Expression, schema: &Schema) -> u64 {
    let scopes = ["self", "oldSelf"].map(|name| (name.to_owned(), Known::Schema(schema)));
    Estimate { scopes: scopes.into() }.cost(&expression.parsed).0
}

/// The schema or the size of a value.
#[derive(Clone, Copy)]
enum Known<'s> {
    Schema(&'s Schema),
    /// The pairs of a list or a map of this schema, and one of them.
    Pairs(&'s Schema),
    Pair(&'s Schema),
    Size(u64),
}

impl<'s> Known<'s> {
    fn size(self) -> u64 {
        match self {
            Self::Schema(schema) | Self::Pairs(schema) => size(schema),
            Self::Pair(_) => 2,
            Self::Size(size) => size,
        }
    }

    /// What is known of the entries of a list or the values of a map.
    fn inner(self) -> Self {
        let (Self::Schema(schema) | Self::Pair(schema)) = self else { return Self::Size(REQUEST) };
        let inner = schema.items.as_deref().or_else(|| schema.additional());
        inner.map_or(Self::Size(REQUEST), Self::Schema)
    }

    /// What is known of that over which a loop goes.
    fn entry(self) -> Self {
        match self {
            Self::Schema(schema) => schema.items.as_deref().map_or(Self::Size(REQUEST), Self::Schema),
            Self::Pairs(schema) => Self::Pair(schema),
            Self::Pair(_) | Self::Size(_) => Self::Size(REQUEST),
        }
    }
}

struct Estimate<'s> {
    scopes: Vec<(String, Known<'s>)>,
}

impl<'s> Estimate<'s> {
    /// The cost of an expression, and what is known of its value.
    fn cost(&mut self, expression: &IdedExpr) -> (u64, Known<'s>) {
        match &expression.expr {
            Expr::Unspecified => (0, Known::Size(1)),
            Expr::Literal(LiteralValue::String(text)) => {
                (0, Known::Size(u64::try_from(text.inner().len()).unwrap_or(REQUEST)))
            }
            Expr::Literal(_) => (0, Known::Size(1)),
            Expr::Ident(name) => {
                let found = self.scopes.iter().rev().find(|(known, _)| known == name);
                (1, found.map_or(Known::Size(REQUEST), |(_, known)| *known))
            }
            Expr::Select(select) => {
                let (cost, known) = self.cost(&select.operand);
                if select.test {
                    return (cost, Known::Size(1));
                }
                (cost.saturating_add(1), self.field(known, &select.field))
            }
            Expr::List(list) => {
                let cost =
                    list.elements.iter().fold(LIST, |sum, entry| sum.saturating_add(self.cost(entry).0));
                (cost, Known::Size(u64::try_from(list.elements.len()).unwrap_or(REQUEST)))
            }
            Expr::Map(map) => {
                let cost = map.entries.iter().fold(MAP, |sum, entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        sum.saturating_add(self.cost(&entry.key).0).saturating_add(self.cost(&entry.value).0)
                    }
                    EntryExpr::StructField(field) => sum.saturating_add(self.cost(&field.value).0),
                });
                (cost, Known::Size(u64::try_from(map.entries.len()).unwrap_or(REQUEST)))
            }
            Expr::Struct(_) => (40, Known::Size(1)),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn field(&self, known: Known<'s>, name: &str) -> Known<'s> {
        let Known::Schema(schema) = known else { return Known::Size(REQUEST) };
        let named = |known: &&str| cel::escaped(known).as_deref() == Some(name);
        let property = schema
            .property(name)
            .or_else(|| schema.properties().find(|(known, _)| named(known)).map(|(_, property)| property));
        match (property, schema.additional()) {
            (Some(property), _) => Known::Schema(property),
            (None, Some(additional)) => Known::Schema(additional),
            // The members of all API objects: the name is short.
            (None, None) => Known::Size(253),
        }
    }

    fn call(&mut self, call: &CallExpr) -> (u64, Known<'s>) {
        let mut cost = 0_u64;
        let mut parts = Vec::new();
        for part in call.target.as_deref().into_iter().chain(&call.args) {
            let (of_part, known) = self.cost(part);
            cost = cost.saturating_add(of_part);
            parts.push(known);
        }
        let sizes: Vec<u64> = parts.iter().map(|known| known.size()).collect();
        let at = |at: usize| sizes.get(at).copied().unwrap_or(1);
        let text = |size: u64| size.div_ceil(TEXT_STEP);
        let name = call.func_name.as_str();
        let own = match name {
            "_&&_" | "_||_" | "_?_:_" | "!_" => 0,
            "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => text(at(0).min(at(1))).max(1),
            "contains" => text(at(0)).saturating_mul(text(at(1))).max(1),
            "startsWith" | "endsWith" => text(at(1)).max(1),
            "matches" | "find" | "findAll" => {
                text(at(0).saturating_add(1)).saturating_mul(at(1).div_ceil(PATTERN_STEP)).max(1)
            }
            "_+_" => text(at(0).saturating_add(at(1))).max(1),
            "@in" => match parts.get(1) {
                Some(Known::Schema(schema)) if schema.kind == Some(JsonType::Object) => 1,
                _ => at(1),
            },
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => at(0),
            "contains_all" | "intersects" | "equivalent" => at(0).saturating_mul(at(1)),
            "url" | "isURL" | "ip" | "isIP" | "cidr" | "isCIDR" | "quantity" | "isQuantity" | "semver"
            | "isSemver" | "validate" | "lowerAscii" | "upperAscii" | "replace" | "split" | "substring"
            | "trim" | "join" | "string" | "bytes" | "timestamp" | "duration" | "charAt" | "format" => {
                text(at(0)).saturating_add(text(if name == "validate" { at(1) } else { 0 })).max(1)
            }
            _ => 1,
        };
        let known = match (name, parts.first()) {
            // The first of a pair is an index or a key, the second an entry.
            ("_[_]", Some(Known::Pair(schema))) if is_first(&call.args) => {
                Known::Size(if schema.items.is_some() { 1 } else { REQUEST })
            }
            ("_[_]" | "_[?_]", Some(first @ (Known::Schema(_) | Known::Pair(_)))) => first.inner(),
            (
                "value" | "orValue" | "dyn" | "lowerAscii" | "upperAscii" | "trim" | "substring" | OPTIONAL
                | PRESENT,
                Some(first),
            ) => *first,
            (PAIRS, Some(Known::Schema(schema))) => Known::Pairs(schema),
            (PAIRS, Some(first)) => *first,
            ("_?_:_", _) => parts.get(1).copied().unwrap_or(Known::Size(1)),
            ("_+_", _) => Known::Size(at(0).saturating_add(at(1))),
            ("split" | "findAll" | "find" | "replace" | "join" | "string" | "format", _) => {
                Known::Size(at(0))
            }
            (FIELD | OPTIONAL_FIELD, Some(first)) => match call.args.get(1).map(|field| &field.expr) {
                Some(Expr::Literal(LiteralValue::String(field))) => self.field(*first, field.inner()),
                _ => Known::Size(REQUEST),
            },
            _ => Known::Size(1),
        };
        (cost.saturating_add(own), known)
    }

    fn comprehension(&mut self, it: &ComprehensionExpr) -> (u64, Known<'s>) {
        let (range, known) = self.cost(&it.iter_range);
        let is_single = macros::is_single(it);
        let (count, entry) = if is_single { (1, known) } else { (known.size(), known.entry()) };
        let (start, _) = self.cost(&it.accu_init);
        let before = self.scopes.len();
        self.scopes.push((it.accu_var.clone(), Known::Size(REQUEST)));
        self.scopes.push((it.iter_var.clone(), entry));
        let (step, made) = match &it.loop_step.expr {
            // The only entry stands for the optional value.
            Expr::List(list) if is_single => match list.elements.as_slice() {
                [one] => self.cost(one),
                _ => self.cost(&it.loop_step),
            },
            _ => self.cost(&it.loop_step),
        };
        let each = self.cost(&it.loop_cond).0.saturating_add(step);
        self.scopes.truncate(before);
        let result = self.cost(&it.result).0;
        let loops = count.saturating_mul(each);
        let cost = range.saturating_add(start).saturating_add(loops).saturating_add(result);
        (cost, if is_single { made } else { Known::Size(count) })
    }
}

/// Whether this is the index of the first of several.
fn is_first(arguments: &[IdedExpr]) -> bool {
    let at = arguments.get(1).map(|argument| &argument.expr);
    matches!(at, Some(Expr::Literal(LiteralValue::Int(number))) if *number.inner() == 0)
}
