//! Updates field ownership after creates, updates and patches. For applied configurations see [`super::config`].

use std::borrow::Cow;

use portcullis_apimachinery::text::is_same;
use serde::Deserializer;
use serde_json::Value;

use crate::Map;
use crate::fields::Members as _;
use crate::meta::metadata_mut;

use super::endpoint::{Comparisons, Endpoint, Versions, reconcile};
use super::entries::{Entries, Entry, ManagedFieldsText, sort};
use super::found::Found;
use super::managers::{Managed, Manager, Managers, Operation};

const FIELD: &str = "managedFields";

/// The `managedFields` of an object.
pub(super) fn managed_fields(object: &Map) -> Option<&Value> {
    object.metadata().get(FIELD).filter(|value| !value.is_null())
}

/// Takes the `managedFields` out of an object.
pub(super) fn take_managed_fields(object: &mut Map) -> Option<Value> {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut)?;
    metadata.remove(FIELD).filter(|value| !value.is_null())
}

/// Sets the `managedFields` of an object; none at all if there is no entry.
pub(super) fn set_managed_fields(object: &mut Map, entries: Vec<Value>) {
    let Some(metadata) = metadata_mut(object) else { return };
    if entries.is_empty() {
        metadata.remove(FIELD);
        return;
    }
    metadata.insert(FIELD.to_owned(), Value::Array(entries));
}

/// Sets the time of an entry of the `managedFields` of an object.
fn renew(object: &mut Map, at: usize, time: &str) {
    let metadata = object.get_mut("metadata");
    let Some(Value::Array(entries)) = metadata.and_then(|metadata| metadata.get_mut(FIELD)) else { return };
    if let Some(entry) = entries.get_mut(at).and_then(Value::as_object_mut) {
        entry.insert("time".to_owned(), time.into());
        sort(entries);
    }
}

/// The object before a write, in the version of the endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Write<'o> {
    /// The object before; an empty one if it is created.
    pub live: &'o Map,
    /// Whether the object is created.
    pub is_new: bool,
}

impl<V: Versions> Endpoint<'_, V> {
    /// Records in the `managedFields` of an object what a manager changed, with what the body said of them: an empty list
    /// clears them, and a list that can be read replaces them. An object that nobody manages stays so.
    pub fn update(&self, manager: &str, write: Write<'_>, new: &mut Map) {
        let live = managed_fields(write.live);
        // The stored list stays in the new object: comparing two equal lists is fast, and neither is copied.
        let is_kept = live.is_some_and(|live| managed_fields(new) == Some(live) && !is_reset(live));
        let given = if is_kept { None } else { take_managed_fields(new) };
        // The status cannot set them, and a new object has none.
        let given = given.filter(|_| self.subresource.is_empty() && !write.is_new);
        let entries = match &given {
            Some(given) if is_reset(given) => return,
            Some(given) => match Managers::parse(Some(given)) {
                Ok(managers) if !managers.entries.is_empty() => Some(managers),
                _ => None,
            },
            None => None,
        };
        let is_given = entries.is_some();
        if !write.is_new && !is_given && live.is_none() {
            return;
        }
        let manager = self.manager(manager, Operation::Update);
        let Some(comparisons) = self.comparisons(write.live, new) else {
            take_managed_fields(new);
            return;
        };
        if !is_given
            && let Some(entries) = live.and_then(Value::as_array)
            && let Some(quick) = self.quick(entries.iter().map(Entry::of), &manager, &comparisons)
        {
            // A list that cannot be read changes nothing.
            if !is_kept {
                set_managed_fields(new, entries.clone());
            }
            if let Quick::Renewed(at) = quick {
                renew(new, at, self.now);
            }
            return;
        }
        let mut managers = entries.unwrap_or_else(|| Managers::parse(live).unwrap_or_default());
        // Nobody manages what cannot be read.
        if managers.entries.is_empty() && !write.is_new {
            return set_managed_fields(new, Vec::new());
        }
        self.record(&mut managers, manager, comparisons);
        managers.cap();
        set_managed_fields(new, managers.print());
    }

    /// Moves what was changed to a manager.
    pub(super) fn record(
        &self,
        managers: &mut Managers,
        manager: Manager,
        mut comparisons: Comparisons<'_, '_, V>,
    ) {
        reconcile(self.versions, managers);
        managers.entries.retain(|_, managed| {
            let Some(comparison) = comparisons.of(&managed.api_version) else { return false };
            for changed in [&comparison.added, &comparison.modified, &comparison.removed] {
                managed.fields.subtract(changed);
            }
            !managed.fields.is_empty()
        });
        let mut taken = comparisons.first.added;
        taken.add(comparisons.first.modified);
        let taken = self.owned(taken);
        if taken.is_empty() {
            return;
        }
        let time = Some(self.now.to_owned());
        match managers.entries.get_mut(&manager) {
            Some(managed) => {
                managed.fields.add(taken);
                managed.time = time;
            }
            None => {
                let managed = Managed { api_version: self.version.to_owned(), fields: taken, time };
                managers.entries.insert(manager, managed);
            }
        }
    }

    /// Records an update of an object whose `managedFields` are kept as text, as [`Self::update`] does with values. `None`
    /// if the sets of fields may change: then the text must be read.
    ///
    /// The objects are without `managedFields`.
    pub fn update_text<'t>(
        &self,
        manager: &str,
        [live, new]: [&Map; 2],
        managed_fields: &'t ManagedFieldsText,
    ) -> Option<Cow<'t, ManagedFieldsText>> {
        let manager = self.manager(manager, Operation::Update);
        let comparisons = self.comparisons(live, new)?;
        let entries = Entries::parse(managed_fields)?;
        match self.quick(entries.iter(), &manager, &comparisons)? {
            Quick::Same => Some(Cow::Borrowed(managed_fields)),
            Quick::Renewed(at) => entries.renewed(at, self.now).map(Cow::Owned),
        }
    }

    /// Finds the writes that change no set of fields, without reading the sets: nothing changed, or only values that this
    /// manager owns alone. Most writes are such: those of nodes and leases. `None` if the sets may change.
    fn quick<'e, F: Deserializer<'e>>(
        &self,
        entries: impl Iterator<Item = Entry<'e, Option<F>>>,
        manager: &Manager,
        comparisons: &Comparisons<'_, '_, V>,
    ) -> Option<Quick> {
        let comparison = &comparisons.first;
        if comparison.is_empty() {
            return Some(Quick::Same);
        }
        if !comparison.added.is_empty() || !comparison.removed.is_empty() {
            return None;
        }
        let mut own = None;
        for (at, entry) in entries.enumerate() {
            // Fields of other versions have other names.
            if entry.api_version != self.version {
                return None;
            }
            let is_own = entry.operation == "Update"
                && entry.manager == manager.name
                && is_same(entry.subresource, &manager.subresource);
            let found = Found::in_fields(entry.fields?, &comparison.modified)?;
            match is_own {
                true if own.is_none() && found.has_all => own = Some(at),
                false if !found.may_have_any => {}
                _ => return None,
            }
        }
        own.map(Quick::Renewed)
    }
}

/// A write that changes no set of fields.
enum Quick {
    /// No entry changes.
    Same,
    /// The entry at this place gets the time of the write.
    Renewed(usize),
}

/// Whether two `managedFields` differ in nothing but times. Other times in another order are more than that, as in
/// Kubernetes.
pub fn differ_in_times_only(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_array(), other.as_array()) else { return false };
    let timeless = |entry: &Value, other: &Value| {
        let (Some(entry), Some(other)) = (entry.as_object(), other.as_object()) else { return false };
        let is_same = |(name, value): (&String, &Value)| name == "time" || other.get(name) == Some(value);
        let count = |entry: &Map| entry.keys().filter(|name| *name != "time").count();
        entry.iter().all(is_same) && count(entry) == count(other)
    };
    one.len() == other.len() && one.iter().zip(other).all(|(entry, other)| timeless(entry, other))
}

/// Whether `managedFields` of a body clear those of the object: an empty list, or one with an empty entry.
fn is_reset(given: &Value) -> bool {
    let is_unset = |value: &Value| value.is_null() || value.as_str() == Some("");
    match given.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(is_unset),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::json;

    use super::*;
    use crate::apply::Typed;
    use crate::resource::Keeps;
    use crate::resources::leases::LEASES;

    const VERSION: &str = "coordination.k8s.io/v1";

    struct Leases;

    impl Versions for Leases {
        type Schema = Typed;

        fn schema(&self, version: &str) -> Option<Typed> {
            (version == VERSION).then(|| Typed::of(LEASES.schema))
        }

        fn convert<'o>(&self, object: Cow<'o, Map>, _: &str, _: &str) -> Option<Cow<'o, Map>> {
            Some(object)
        }
    }

    fn lease() -> Map {
        let entry = |manager: &str, fields: Value| {
            json!({"manager": manager, "operation": "Update", "apiVersion": VERSION, "fieldsType": "FieldsV1",
                "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": fields}})
        };
        let entries = [
            entry("controller", json!({"f:holderIdentity": {}})),
            entry("kubelet", json!({"f:renewTime": {}})),
        ];
        let lease = json!({
            "metadata": {"name": "node", "managedFields": entries},
            "spec": {"holderIdentity": "node", "renewTime": "2026-01-01T00:00:00.000000Z"},
        });
        lease.as_object().unwrap().clone()
    }

    /// Whether the entries stay but for a time, and the `managedFields` after the write. `change` changes the spec.
    fn written(manager: &str, change: impl Fn(&mut Map)) -> (bool, Value) {
        let now = "2026-01-02T00:00:00Z";
        let endpoint =
            Endpoint { versions: &Leases, version: VERSION, subresource: "", keeps: Keeps::ALL, now };
        let (live, mut new) = (lease(), lease());
        change(new.get_mut("spec").unwrap().as_object_mut().unwrap());
        let mut bare = new.clone();
        take_managed_fields(&mut bare);
        let comparisons = endpoint.comparisons(&live, &bare).unwrap();
        let entries = managed_fields(&live).and_then(Value::as_array).unwrap();
        let by = endpoint.manager(manager, Operation::Update);
        let is_quick = endpoint.quick(entries.iter().map(Entry::of), &by, &comparisons).is_some();
        let text: ManagedFieldsText =
            serde_json::from_str(&Value::from(entries.clone()).to_string()).unwrap();
        let of_text = endpoint.update_text(manager, [&live, &bare], &text);
        let of_text = of_text.map(|text| serde_json::from_str::<Value>(text.as_str()).unwrap());
        let mut managers = Managers::parse(managed_fields(&live)).unwrap();
        endpoint.record(&mut managers, by, comparisons);
        endpoint.update(manager, Write { live: &live, is_new: false }, &mut new);
        let entries = managed_fields(&new).unwrap().clone();
        assert_eq!(entries, Value::from(managers.print()), "either way leads to the same");
        assert_eq!(of_text, is_quick.then(|| entries.clone()), "text leads to the same");
        (is_quick, entries)
    }

    #[test]
    fn leases_are_renewed_without_reading_sets_of_fields() {
        let set = |name: &'static str, value: &'static str| {
            move |spec: &mut Map| drop(spec.insert(name.to_owned(), value.into()))
        };
        let (is_quick, entries) = written("kubelet", set("renewTime", "2026-01-02T00:00:00.000000Z"));
        assert!(is_quick);
        assert_eq!(entries[1]["time"], "2026-01-02T00:00:00Z");
        let (is_quick, entries) = written("controller", set("holderIdentity", "other"));
        assert!(is_quick);
        assert_eq!(entries[1]["manager"], "controller", "the last who wrote comes last");
        let (is_quick, entries) = written("kubelet", |_| {});
        assert!(is_quick);
        assert_eq!(&entries, managed_fields(&lease()).unwrap());
        let (live, mut new) = (lease(), lease());
        let metadata = new.get_mut("metadata").unwrap().as_object_mut().unwrap();
        metadata.insert(FIELD.to_owned(), json!([{"operation": "Sing"}]));
        let (keeps, now) = (Keeps::ALL, "2026-01-02T00:00:00Z");
        let endpoint = Endpoint { versions: &Leases, version: VERSION, subresource: "", keeps, now };
        endpoint.update("kubelet", Write { live: &live, is_new: false }, &mut new);
        assert_eq!(new, live, "entries that cannot be read change nothing");
        for (manager, name) in
            [("kubelet", "holderIdentity"), ("other", "renewTime"), ("kubelet", "strategy")]
        {
            assert!(!written(manager, set(name, "2026-01-03T00:00:00.000000Z")).0, "{manager} {name}");
        }
    }
}
