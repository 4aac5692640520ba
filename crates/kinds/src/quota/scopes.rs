//! Which objects a quota is about, by its scopes.

use super::pods;
use crate::Map;
use crate::fields::Members;
use crate::resource::Resource;
use crate::resources::core::persistent_volume_claims::{PERSISTENT_VOLUME_CLAIMS, attributes_classes};
use crate::resources::pods::PODS;

/// Whether an object is in all scopes of a quota. Only pods and claims can be in any.
pub(super) fn cover(quota: &Map, resource: &Resource, object: &Map) -> bool {
    let spec = quota.object("spec");
    spec.texts("scopes").all(|scope| is_in(resource, object, scope, None))
        && expressions(quota).all(|expression| is_selected(resource, object, expression))
}

/// The scopes of a quota that an object is in, whether or not it is in all of them.
pub(super) fn matched<'q>(
    quota: &'q Map,
    resource: &Resource,
    object: &Map,
) -> impl Iterator<Item = &'q str> {
    let scopes = quota.object("spec").texts("scopes").filter(|scope| is_in(resource, object, scope, None));
    let selected = expressions(quota).filter(|expression| is_selected(resource, object, expression));
    scopes.chain(selected.map(|expression| expression.text("scopeName")))
}

/// Whether an object is in the scope of an expression.
pub(super) fn is_selected(resource: &Resource, object: &Map, expression: &Map) -> bool {
    is_in(resource, object, expression.text("scopeName"), Some(expression))
}

/// Whether objects of a kind can be in a scope.
pub(super) fn exist_for(resource: &Resource) -> bool {
    *resource == PODS || *resource == PERSISTENT_VOLUME_CLAIMS
}

fn expressions(quota: &Map) -> impl Iterator<Item = &Map> {
    quota.object("spec").object("scopeSelector").objects("matchExpressions")
}

fn is_in(resource: &Resource, object: &Map, scope: &str, expression: Option<&Map>) -> bool {
    let operator = expression.map_or("Exists", |expression| expression.text("operator"));
    if *resource == PODS {
        return match (scope, operator) {
            (_, "Exists") => pods::is_in_scope(object, scope),
            ("PriorityClass", _) => matches(expression, operator, pods::priority_class(object).as_slice()),
            _ => false,
        };
    }
    if *resource == PERSISTENT_VOLUME_CLAIMS && scope == "VolumeAttributesClass" {
        return matches(expression, operator, &attributes_classes(object));
    }
    false
}

/// Whether one of the names matches the expression, or an object without a name does.
fn matches(expression: Option<&Map>, operator: &str, names: &[&str]) -> bool {
    let is_listed =
        |name: &str| expression.is_some_and(|expression| expression.texts("values").any(|it| it == name));
    match operator {
        "Exists" => !names.is_empty(),
        "DoesNotExist" => names.is_empty(),
        "In" => names.iter().any(|name| is_listed(name)),
        "NotIn" => names.is_empty() || names.iter().any(|name| !is_listed(name)),
        _ => false,
    }
}
