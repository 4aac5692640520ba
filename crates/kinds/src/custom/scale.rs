//! The scale of custom objects: where in an object it stands how many there are to be, and how many there are.

use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use serde_json::Value;

use crate::Map;
use crate::fields::Members;

/// The paths to the parts of a scale.
#[derive(Debug)]
pub struct ScalePaths {
    spec_replicas: SimplePath,
    status_replicas: SimplePath,
    label_selector: Option<SimplePath>,
}

/// Names with dots before them: `.spec.replicas`.
#[derive(Debug)]
struct SimplePath {
    text: Box<str>,
}

impl SimplePath {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.text.trim_start_matches('.').split('.')
    }

    /// The value; what is wrong if there is something else on the way.
    fn find<'v>(&self, object: &'v Map) -> Result<Option<&'v Value>, String> {
        let mut names = self.names();
        let mut value = match object.get(names.next().unwrap_or_default()) {
            Some(value) => value,
            None => return Ok(None),
        };
        for name in names {
            let Value::Object(members) = value else {
                return Err(format!("{} accessor error: {value} is no object", self.text));
            };
            match members.get(name) {
                Some(inner) => value = inner,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    fn number(&self, object: &Map) -> Result<Option<i64>, String> {
        match self.find(object)? {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{} accessor error: {value} is no whole number", self.text)),
            },
        }
    }

    fn set(&self, object: &mut Map, value: Value) {
        let names: Vec<&str> = self.names().collect();
        let Some((last, way)) = names.split_last() else { return };
        let mut at = object;
        for name in way {
            let inner = at.entry((*name).to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            let Value::Object(inner) = inner else { return };
            at = inner;
        }
        at.insert((*last).to_owned(), value);
    }

    /// Adds an error if there is something else than a number of objects.
    fn check_count(&self, object: &Map, errors: &mut FieldErrors) {
        let wrong = match self.number(object) {
            Err(why) => Some(("0".to_owned(), why)),
            Ok(Some(count)) if count < 0 => {
                Some((count.to_string(), "should be a non-negative integer".to_owned()))
            }
            Ok(Some(count)) if count > i64::from(i32::MAX) => {
                Some((count.to_string(), format!("should be less than or equal to {}", i32::MAX)))
            }
            Ok(_) => None,
        };
        errors.extend(wrong.map(|(value, why)| FieldError::invalid(&*self.text, value, why)));
    }
}

impl ScalePaths {
    /// Reads the paths of a validated definition.
    pub(super) fn read(scale: &Map) -> Self {
        let path = |name: &str| SimplePath { text: scale.text(name).into() };
        let selector = path("labelSelectorPath");
        Self {
            spec_replicas: path("specReplicasPath"),
            status_replicas: path("statusReplicasPath"),
            label_selector: Some(selector).filter(|path| !path.text.is_empty()),
        }
    }

    /// Adds what is wrong with the number that there are to be.
    pub(super) fn check_spec(&self, object: &Map, errors: &mut FieldErrors) {
        self.spec_replicas.check_count(object, errors);
    }

    /// Adds what is wrong with the number that there are, and with the selector.
    pub(super) fn check_status(&self, object: &Map, errors: &mut FieldErrors) {
        self.status_replicas.check_count(object, errors);
        let Some(path) = &self.label_selector else { return };
        let wrong = match path.find(object) {
            Err(why) => Some(why),
            Ok(Some(value)) if !value.is_string() => {
                Some(format!("{} accessor error: {value} is no text", path.text))
            }
            Ok(_) => None,
        };
        errors.extend(wrong.map(|why| FieldError::invalid(&*path.text, "\"\"", why)));
    }

    /// The number that there are to be, the number that there are, and the selector.
    ///
    /// # Errors
    /// The object does not say how many there are to be.
    pub(super) fn counts(&self, object: &Map) -> Result<(i64, i64, String), String> {
        let Some(wanted) = self.spec_replicas.number(object)? else {
            return Err(format!("the spec replicas field \"{}\" does not exist", self.spec_replicas.text));
        };
        let there = self.status_replicas.number(object)?.unwrap_or_default();
        let selector = match &self.label_selector {
            Some(path) => path.find(object)?.and_then(Value::as_str).unwrap_or_default().to_owned(),
            None => String::new(),
        };
        Ok((wanted, there, selector))
    }

    /// Sets the number that there are to be.
    ///
    /// # Errors
    /// It is negative.
    pub(super) fn set(&self, object: &mut Map, count: i64) -> Result<(), FieldErrors> {
        if count < 0 {
            let why = "should be a non-negative integer";
            return Err([FieldError::invalid(&*self.spec_replicas.text, count, why)].into());
        }
        self.spec_replicas.set(object, count.into());
        Ok(())
    }
}
