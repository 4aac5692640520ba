//! The entries of `managedFields`: who manages which fields.

use std::collections::BTreeMap;
use std::fmt;

use portcullis_apimachinery::quote::Quoted;
use serde_json::{Map, Value};

use super::entries::{seconds, sort};
use super::set::FieldSet;

/// The maximum number of managers that update. The oldest of more share one entry.
const MAX_UPDATERS: usize = 10;
/// The manager of that entry.
const ANCIENT: &str = "ancient-changes";

/// The way in which a manager manages fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By applied configurations.
    Apply,
    /// By all other writes.
    Update,
}

/// A manager. Two entries with the same do not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// Its name.
    pub name: String,
    /// The operation by which it manages.
    pub operation: Operation,
    /// The version of the objects that it writes; empty for one that applies, which may change it.
    pub api_version: String,
    /// The subresource that it writes through; empty for none.
    pub subresource: String,
}

impl Manager {
    /// A manager that writes objects of a version.
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        let [name, api_version, subresource] = [name, api_version, subresource].map(str::to_owned);
        Self { name, operation, api_version, subresource }
    }
}

/// As conflicts name it: `"kubectl-edit" with subresource "status" using v1`.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quoted(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", Quoted(&self.subresource))?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// The fields of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Managed {
    /// The version that the fields are of.
    pub api_version: String,
    /// The fields.
    pub fields: FieldSet,
    /// When that last changed. Not there for a configuration that changed nothing when it was applied first.
    pub time: Option<String>,
}

/// The managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    /// The fields of each manager.
    pub entries: BTreeMap<Manager, Managed>,
}

/// `managedFields` that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("managedFields cannot be read: {0}")]
pub struct Unreadable(&'static str);

impl Managers {
    /// Reads `managedFields`. Of several entries of a manager the last counts.
    ///
    /// # Errors
    /// An entry lacks its operation, its version or its type, or its fields are in no known form.
    pub fn parse(managed_fields: Option<&Value>) -> Result<Self, Unreadable> {
        let mut managers = Self::default();
        for entry in managed_fields.and_then(Value::as_array).into_iter().flatten() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(Unreadable("the operation is not Apply or Update")),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err(Unreadable("there is no apiVersion"));
            }
            if text("fieldsType") != "FieldsV1" {
                return Err(Unreadable("the fieldsType is not FieldsV1"));
            }
            let fields = FieldSet::parse(entry.get("fieldsV1")).map_err(Unreadable)?;
            let manager = Manager::new(text("manager"), operation, api_version, text("subresource"));
            let time = Some(text("time")).filter(|time| !time.is_empty()).map(str::to_owned);
            let managed = Managed { api_version: api_version.to_owned(), fields, time };
            managers.entries.insert(manager, managed);
        }
        Ok(managers)
    }

    /// The entries as `managedFields`, in order: those that apply first, then by time, in whole seconds.
    pub fn print(&self) -> Vec<Value> {
        let mut entries: Vec<Value> =
            self.entries.iter().map(|(manager, managed)| print(manager, managed)).collect();
        sort(&mut entries);
        entries
    }

    /// Lets the oldest managers that update share an entry, if there are too many.
    pub(super) fn cap(&mut self) {
        let updates = |manager: &&Manager| manager.operation == Operation::Update;
        let mut count = self.entries.keys().filter(updates).count();
        if count <= MAX_UPDATERS {
            return;
        }
        let mut oldest: Vec<(i64, Manager)> = self
            .entries
            .iter()
            .filter(|(manager, _)| updates(manager))
            .map(|(manager, managed)| (seconds(managed.time.as_deref()), manager.clone()))
            .collect();
        oldest.sort();
        // One entry for each version, beginning with the oldest manager of that version.
        let mut first: BTreeMap<String, Manager> = BTreeMap::new();
        for (_, manager) in oldest {
            if count <= MAX_UPDATERS {
                return;
            }
            let version = manager.api_version.clone();
            let Some(oldest) = first.get(&version) else {
                first.insert(version, manager);
                continue;
            };
            let shared = Manager::new(ANCIENT, Operation::Update, &version, "");
            if manager == shared {
                continue;
            }
            if !self.entries.contains_key(&shared)
                && let Some(managed) = self.entries.remove(oldest)
            {
                self.entries.insert(shared.clone(), managed);
            }
            if let Some(managed) = self.entries.remove(&manager)
                && let Some(entry) = self.entries.get_mut(&shared)
            {
                entry.fields.add(managed.fields);
                entry.time = managed.time;
            }
            count = count.saturating_sub(1);
        }
    }
}

fn print(manager: &Manager, managed: &Managed) -> Value {
    let operation = match manager.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    let texts = [
        ("manager", manager.name.as_str()),
        ("operation", operation),
        ("apiVersion", &managed.api_version),
        ("time", managed.time.as_deref().unwrap_or_default()),
        ("fieldsType", "FieldsV1"),
        ("subresource", &manager.subresource),
    ];
    let given = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let mut entry: Map<String, Value> =
        given.map(|(name, text)| (name.to_owned(), Value::from(text))).collect();
    entry.insert("fieldsV1".to_owned(), managed.fields.print());
    Value::Object(entry)
}
