//! The versions of definitions: what each has of its own, and what all of them have in common.
//!
//! Kubernetes reports what is wrong with something that all versions have in common at the specification itself, although
//! no definition says it there.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::rfc1035_label_errors;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::{defaults, openapi, paths, structural};
use crate::Map;
use crate::custom::{RuleCompiler, Schema};
use crate::fields::{ErrorList, Errors, Members};

/// The most versions. DIVERGES: Kubernetes has no limit.
pub(super) const MAX_VERSIONS: usize = 64;
/// The most columns of tables. DIVERGES: Kubernetes has no limit.
const MAX_COLUMNS: usize = 256;
/// The longest warning of a deprecated version, in bytes.
const MAX_WARNING: usize = 256;
/// The keywords that the root schema can have in a version with the subresource `status`.
const AT_ROOT: [&str; 24] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "nullable",
    "default",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Adds what is wrong with the versions of a specification. The rules of schemas that are right otherwise are compiled.
pub(super) fn check(spec: &Map, compiler: Option<&dyn RuleCompiler>, errors: &mut Errors) {
    let versions: Vec<&Map> = spec.objects("versions").collect();
    if versions.len() > MAX_VERSIONS {
        errors.push(FieldError::too_many("spec.versions", versions.len(), MAX_VERSIONS));
        return;
    }
    let is_common = |name: &str| {
        let values: Vec<Option<&Value>> = versions.iter().map(|version| version.get(name)).collect();
        values.windows(2).all(|pair| matches!(pair, [a, b] if a == b))
    };
    let status = |version: &Map| version.object("subresources").has("status");
    if !is_common("schema") || versions.first().is_some_and(|first| !has_schema(first)) {
        for (at, version) in versions.iter().enumerate() {
            errors.push_if(version.is_true("served") && !has_schema(version), || {
                let field = format!("spec.versions[{at}].schema.openAPIV3Schema");
                FieldError::required(field, "schemas are required")
            });
        }
    }
    let common = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"].map(is_common);
    let [schema, subresources, columns, selectable] = common;
    for (at, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{at}]");
        let name = version.text("name");
        let faults = rfc1035_label_errors(name);
        errors.push_if(!faults.is_empty(), || {
            FieldError::invalid(format!("{path}.name"), quoted(name), faults.join(","))
        });
        deprecation(version, &path, errors);
        // What all have in common is looked at once.
        if !schema {
            let path = format!("{path}.schema");
            of_schema(version.object("schema"), status(version), &path, compiler, errors);
        }
        if !subresources {
            paths::check_subresources(
                version.object("subresources"),
                &format!("{path}.subresources"),
                errors,
            );
        }
        if !columns {
            of_columns(version, &path, errors);
        }
        if !selectable {
            of_selectable(version, &path, errors);
        }
    }
    let Some(first) = versions.first() else { return };
    if schema {
        let has_status = versions.iter().any(|version| status(version));
        of_schema(first.object("schema"), has_status, "spec.validation", compiler, errors);
    }
    if subresources {
        paths::check_subresources(first.object("subresources"), "spec.subresources", errors);
    }
    if columns {
        of_columns(first, "spec", errors);
    }
    if selectable {
        of_selectable(first, "spec", errors);
    }
}

fn has_schema(version: &Map) -> bool {
    version.object("schema").has("openAPIV3Schema")
}

fn deprecation(version: &Map, path: &str, errors: &mut Errors) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let field = || format!("{path}.deprecationWarning");
    let detail = if !version.is_true("deprecated") {
        "can only be set for deprecated versions"
    } else if warning.is_empty() {
        "cannot be an empty string"
    } else if warning.len() > MAX_WARNING {
        "must be <= 256 UTF-8 bytes"
    } else if warning.chars().any(char::is_control) {
        "must only contain printable UTF-8 characters; non-printable character found"
    } else {
        return;
    };
    errors.push(FieldError::invalid(field(), quoted(warning), detail));
}

fn of_columns(version: &Map, path: &str, errors: &mut Errors) {
    let columns = version.objects("additionalPrinterColumns");
    if columns.len() > MAX_COLUMNS {
        let field = format!("{path}.additionalPrinterColumns");
        errors.push(FieldError::too_many(field, columns.len(), MAX_COLUMNS));
        return;
    }
    for (at, column) in columns.enumerate() {
        paths::check_column(column, &format!("{path}.additionalPrinterColumns[{at}]"), errors);
    }
}

fn of_selectable(version: &Map, path: &str, errors: &mut Errors) {
    let fields: Vec<&Map> = version.objects("selectableFields").collect();
    if !fields.is_empty() {
        let schema = Schema::read(version.object("schema").object("openAPIV3Schema"));
        paths::check_selectable(&fields, &schema, &format!("{path}.selectableFields"), errors);
    }
}

/// Adds what is wrong with a schema.
fn of_schema(
    validation: &Map,
    has_status: bool,
    path: &str,
    compiler: Option<&dyn RuleCompiler>,
    errors: &mut Errors,
) {
    let Some(props) = validation.object_if_set("openAPIV3Schema") else { return };
    let path = format!("{path}.openAPIV3Schema");
    let kind = props.text("type");
    if has_status {
        if !kind.is_empty() && kind != "object" {
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                enabled";
            errors.push(FieldError::invalid(format!("{path}.type"), quoted(kind), detail));
        } else if let Some(name) = props.keys().find(|name| !AT_ROOT.contains(&name.as_str())) {
            let detail = format!(
                "{name} is not allowed at the root of the schema if the status subresource is enabled"
            );
            errors.push(FieldError::invalid(path.clone(), "{}", detail));
        }
    }
    errors.push_if(props.is_true("nullable"), || {
        FieldError::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root")
    });
    let mut of_parts = Errors::new();
    if openapi::check(props, &path, &mut of_parts) {
        let mut of_structure = Errors::new();
        structural::check(props, &path, &mut of_structure);
        let schema = Schema::read(props);
        if of_structure.is_empty() {
            defaults::check(&schema, &path, &mut of_structure);
        }
        // Rules that cannot be understood say nothing about what else is wrong.
        let may_compile = of_structure.is_empty() && of_parts.is_empty() && schema.has_rules();
        if let Some(compiler) = compiler.filter(|_| may_compile) {
            of_structure.extend(compiler.compile(&schema, &path).err().unwrap_or_default());
        }
        errors.extend(of_structure);
    }
    errors.extend(of_parts);
}
