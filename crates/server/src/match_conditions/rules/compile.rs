//! Compiles the rules of a schema.

use kinds::custom::{FieldPath, ListType, Rule, Rules, Schema};
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::quote::quoted;

use super::cost::{self, Cardinality};
use super::evaluate::{CompiledRule, CompiledRules, Node};
use super::names;
use crate::match_conditions::compile::{compile_rule, on_large_stack};
use crate::match_conditions::types::{BOOL, STRING, Type};

/// The most rules of a schema. DIVERGES: Kubernetes has no limit but that of their cost.
const MAX_RULES: usize = 2_000;

/// Compiles the rules of a schema at a path.
///
/// # Errors
/// Everything wrong with them.
pub(super) fn compile(schema: &Schema, path: &str) -> Result<Box<dyn Rules>, FieldErrors> {
    let compiled = on_large_stack(|| {
        let mut walk = Walk { errors: FieldErrors::new(), total: 0, count: 0, most: None };
        let node =
            walk.node(schema, path, Place { is_root: true, cardinality: Cardinality::ONE, blocked: None });
        walk.finish(path);
        (node, walk.errors)
    });
    match compiled {
        Some((node, errors)) if errors.is_empty() => {
            Ok(Box::new(CompiledRules { root: node.unwrap_or_default() }))
        }
        Some((_, errors)) => Err(errors),
        None => Err([FieldError::internal(path, "the rules cannot be compiled")].into()),
    }
}

/// The position of a schema.
#[derive(Clone, Copy)]
struct Place<'p> {
    is_root: bool,
    /// How many values of the schema an object can have.
    cardinality: Cardinality,
    /// The schema around whose parts cannot be found again in the old object.
    blocked: Option<&'p str>,
}

struct Walk {
    errors: FieldErrors,
    /// The estimated cost of all rules for an object.
    total: u64,
    count: usize,
    /// The path of the rule that costs most, and what it costs.
    most: Option<(String, u64)>,
}

impl Walk {
    /// Compiles the rules of a schema and of its parts; none if there are none.
    fn node(&mut self, schema: &Schema, path: &str, place: Place<'_>) -> Option<Node> {
        if !schema.has_rules() {
            return None;
        }
        let mut node = Node::default();
        if !schema.rules().is_empty() {
            match names::of(schema, place.is_root) {
                Some(of) => {
                    for (at, rule) in schema.rules().iter().enumerate() {
                        let path = format!("{path}.x-kubernetes-validations[{at}]");
                        node.rules.extend(self.rule(rule, schema, &of, &path, place));
                    }
                }
                None => {
                    let field = format!("{path}.x-kubernetes-validations");
                    let why = "rules need a schema with a type for every value that they are about";
                    self.errors.push(FieldError::invalid(field, "[]", why));
                }
            }
        }
        let below = |cardinality, blocked| Place { is_root: false, cardinality, blocked };
        for (name, property) in schema.properties() {
            let path = format!("{path}.properties[{name}]");
            let inner = self.node(property, &path, below(place.cardinality, place.blocked));
            node.properties.extend(inner.map(|inner| (name.into(), inner)));
        }
        if let Some(additional) = schema.additional() {
            let blocked = place.blocked.or(schema.is_atomic.then_some(path));
            let cardinality = place.cardinality.times(cost::members(schema));
            let path = format!("{path}.additionalProperties");
            node.additional = self.node(additional, &path, below(cardinality, blocked)).map(Box::new);
        }
        if let Some(items) = schema.items.as_deref() {
            let blocked = place.blocked.or((schema.list_type != ListType::Map).then_some(path));
            let cardinality = place.cardinality.times(cost::entries(schema));
            node.items =
                self.node(items, &format!("{path}.items"), below(cardinality, blocked)).map(Box::new);
        }
        Some(node)
    }

    fn rule(
        &mut self,
        rule: &Rule,
        schema: &Schema,
        of: &Type,
        path: &str,
        place: Place<'_>,
    ) -> Option<CompiledRule> {
        self.count = self.count.saturating_add(1);
        if self.count > MAX_RULES {
            return None;
        }
        let field = format!("{path}.rule");
        let is_optional = rule.optional_old_self == Some(true);
        let old = if is_optional { Type::Optional(Box::new(of.clone())) } else { of.clone() };
        let invalid = |detail: String| FieldError::invalid(field.clone(), quoted(&rule.rule), detail);
        let compiled = match compile_rule(&rule.rule, of, &old) {
            Ok((compiled, BOOL)) => compiled,
            Ok((_, found)) => {
                self.errors
                    .push(invalid(format!("cel expression must evaluate to a bool, and not to {found}")));
                return None;
            }
            Err(why) => {
                self.errors.push(invalid(format!("compilation failed: {why}")));
                return None;
            }
        };
        self.observe(cost::of(&compiled, schema), place.cardinality, &field);
        let reads_old = compiled.reads_variable("oldSelf");
        if let Some(blocked) = place.blocked.filter(|_| reads_old) {
            let why = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {blocked}"
            );
            self.errors.push(invalid(why));
        }
        if !reads_old && rule.optional_old_self.is_some() {
            let why = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(format!("{path}.optionalOldSelf"), is_optional, why));
        }
        let message = self.message(rule, schema, (of, &old), path, place);
        let below = match &*rule.field_path {
            "" => None,
            text => FieldPath::find(text, schema).ok().map(|(found, _)| found.shown().into()),
        };
        Some(CompiledRule { rule: rule.clone(), compiled, message, reads_old, below })
    }

    /// Compiles the expression for the message of a rule.
    fn message(
        &mut self,
        rule: &Rule,
        schema: &Schema,
        (of, old): (&Type, &Type),
        path: &str,
        place: Place<'_>,
    ) -> Option<crate::match_conditions::compile::Expression> {
        let text = &*rule.message_expression;
        if text.trim().is_empty() {
            return None;
        }
        let field = format!("{path}.messageExpression");
        let why = match compile_rule(text, of, old) {
            Ok((compiled, STRING)) => {
                self.observe(cost::of(&compiled, schema), place.cardinality, &field);
                return Some(compiled);
            }
            Ok((_, found)) => format!("messageExpression must evaluate to a string, and not to {found}"),
            Err(why) => format!("messageExpression compilation failed: {why}"),
        };
        self.errors.push(FieldError::invalid(field, quoted(text), why));
        None
    }

    /// Takes what an expression costs, for all values that an object can have.
    fn observe(&mut self, cost: u64, cardinality: Cardinality, field: &str) {
        let cost = cardinality.cost(cost);
        if cost > cost::MAX_RULE {
            let why = format!(
                "estimated rule cost exceeds budget by factor of {}x (try simplifying the rule, or adding maxItems, \
                 maxProperties, and maxLength where arrays, maps, and strings are declared)",
                cost / cost::MAX_RULE
            );
            self.errors.push(FieldError::forbidden(field, why));
        }
        self.total = self.total.saturating_add(cost);
        if self.most.as_ref().is_none_or(|(_, most)| cost > *most) {
            self.most = Some((field.to_owned(), cost));
        }
    }

    /// Adds the errors about all rules together.
    fn finish(&mut self, path: &str) {
        if self.count > MAX_RULES {
            self.errors.push(FieldError::too_many(path, self.count, MAX_RULES));
        }
        if self.total <= cost::MAX_TOTAL {
            return;
        }
        if let Some((most, _)) = self.most.take() {
            let why = "contributed to estimated rule & messageExpression cost total exceeding cost limit for entire \
                OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(most, why));
        }
        let why = "x-kubernetes-validations estimated rule & messageExpression cost total for entire OpenAPIv3 schema \
            exceeds budget (try simplifying the rules, or adding maxItems, maxProperties, and maxLength where arrays, maps, \
            and strings are declared)";
        self.errors.push(FieldError::forbidden(path, why));
    }
}
