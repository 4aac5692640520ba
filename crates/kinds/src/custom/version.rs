//! A version of a custom kind, as its definition says.

use std::cmp::Reverse;

use portcullis_apimachinery::field_error::{FieldError, FieldErrorReason, FieldErrors};

use super::columns::Columns;
use super::field_path::FieldPath;
use super::ownership::Structural;
use super::rules::{RuleCompiler, Rules};
use super::scale::ScalePaths;
use super::schema::Schema;
use super::{embedded, lists, values};
use crate::Map;
use crate::fields::Members;

/// The error for rules that are not evaluated because the object has other errors.
const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing \
    errors to complete validation";

/// Clients should try stable versions first, then betas, then alphas, and of each the newest first.
pub(crate) fn rank(version: &str) -> (u8, Reverse<u32>) {
    let maturity = match version {
        alpha if alpha.contains("alpha") => 2,
        beta if beta.contains("beta") => 1,
        _ => 0,
    };
    let number = version.trim_start_matches('v').split(|c: char| !c.is_ascii_digit()).next();
    (maturity, Reverse(number.and_then(|number| number.parse().ok()).unwrap_or_default()))
}

/// A version.
#[derive(Debug)]
pub struct Version {
    /// The name: `v1`.
    pub name: Box<str>,
    /// Whether requests for it are answered.
    pub is_served: bool,
    /// Whether objects are stored in it.
    pub is_storage: bool,
    /// The warning for requests, if it is deprecated.
    pub warning: Option<Box<str>>,
    /// The schema.
    pub schema: Schema,
    /// The rules of the schema.
    rules: Option<Box<dyn Rules>>,
    /// Whether a write can take long.
    pub(super) is_costly: bool,
    /// Whether the status has an endpoint of its own.
    pub has_status: bool,
    /// The scale, if there is one.
    pub scale: Option<ScalePaths>,
    /// The columns of tables.
    pub columns: Columns,
    /// The fields by which objects are selected.
    pub selectable: Box<[FieldPath]>,
}

impl Version {
    /// Reads a version of a validated definition.
    ///
    /// # Errors
    /// Its rules cannot be compiled.
    pub(super) fn read(version: &Map, compiler: &dyn RuleCompiler) -> Result<Self, FieldErrors> {
        let schema = Schema::read(version.object("schema").object("openAPIV3Schema"));
        let rules = match schema.has_rules() {
            true => Some(compiler.compile(&schema, "schema.openAPIV3Schema")?),
            false => None,
        };
        let subresources = version.object("subresources");
        let fields = version.objects("selectableFields");
        let fields = fields.filter_map(|field| FieldPath::find(field.text("jsonPath"), &schema).ok());
        let selectable = fields.map(|(path, _)| path).collect();
        Ok(Self {
            name: version.text("name").into(),
            is_served: version.is_true("served"),
            is_storage: version.is_true("storage"),
            warning: version.is_true("deprecated").then(|| version.text("deprecationWarning").into()),
            is_costly: rules.is_some() || schema.is_costly(),
            rules,
            has_status: subresources.has("status"),
            scale: subresources.object_if_set("scale").map(ScalePaths::read),
            columns: Columns::read(version.list("additionalPrinterColumns")),
            selectable,
            schema,
        })
    }

    /// Everything wrong with an object, apart from its metadata.
    pub(super) fn validate(&self, object: &Map, old: Option<&Map>, is_status: bool) -> FieldErrors {
        let mut errors = values::validate(object, old, &self.schema);
        if let Some(scale) = &self.scale {
            match is_status {
                true => scale.check_status(object, &mut errors),
                false => scale.check_spec(object, &mut errors),
            }
        }
        embedded::validate(object, &self.schema, &mut errors);
        lists::check(object, &self.schema, &mut errors);
        let Some(rules) = &self.rules else { return errors };
        let is_blocking = |error: &FieldError| {
            use FieldErrorReason::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
            matches!(error.reason, NotSupported | Required | TooLong | TooMany | TypeInvalid)
        };
        if errors.iter().any(is_blocking) {
            errors.push(FieldError::invalid(values::WHOLE, "\"null\"", NOT_CHECKED));
        } else {
            errors.extend(rules.check(&self.schema, object, old));
        }
        errors
    }

    /// The schema of whole objects, as server-side apply sees it.
    pub fn ownership(&self) -> Structural<'_> {
        Structural::whole(&self.schema)
    }
}
