//! The entries of `managedFields`, without reading their sets of fields.

use std::borrow::Cow;

use portcullis_apimachinery::time::Instant;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// An entry.
pub(super) struct Entry<'e, F> {
    pub(super) manager: &'e str,
    pub(super) operation: &'e str,
    pub(super) api_version: &'e str,
    pub(super) subresource: &'e str,
    pub(super) time: &'e str,
    /// The `fieldsV1`.
    pub(super) fields: F,
}

impl<'e, F> Entry<'e, F> {
    /// The sort key of the entry: entries of applies come first, then by time in whole seconds.
    pub(super) fn place(&self) -> impl Ord + use<'e, F> {
        (self.operation, seconds(Some(self.time)), self.manager, self.api_version, self.subresource)
    }
}

impl<'e> Entry<'e, Option<&'e Value>> {
    /// The entry in this value.
    pub(super) fn of(entry: &'e Value) -> Self {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        Self {
            manager: text("manager"),
            operation: text("operation"),
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: text("time"),
            fields: entry.get("fieldsV1"),
        }
    }
}

/// Sorts printed entries.
pub(super) fn sort(entries: &mut [Value]) {
    entries.sort_by(|one, other| Entry::of(one).place().cmp(&Entry::of(other).place()));
}

/// The time of an entry; 0 without one.
pub(super) fn seconds(time: Option<&str>) -> i64 {
    time.and_then(|time| Instant::parse(time).ok()).map_or(0, |time| time.seconds)
}

/// `managedFields` as the JSON in which they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedFieldsText(Box<str>);

impl ManagedFieldsText {
    /// The JSON.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ManagedFieldsText {
    fn deserialize<D: Deserializer<'de>>(text: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(text).map(|text| Self(text.into()))
    }
}

/// The entries of `managedFields` that are text.
pub(super) struct Entries<'t> {
    text: &'t str,
    entries: Vec<EntryText<'t>>,
}

/// An entry as text. Its members are in the order in which objects are stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EntryText<'t> {
    #[serde(borrow)]
    api_version: Cow<'t, str>,
    #[serde(borrow)]
    fields_type: Cow<'t, str>,
    #[serde(borrow, rename = "fieldsV1")]
    fields: &'t RawValue,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    manager: Cow<'t, str>,
    #[serde(borrow)]
    operation: Cow<'t, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    subresource: Cow<'t, str>,
    #[serde(borrow, default, skip_serializing_if = "str::is_empty")]
    time: Cow<'t, str>,
}

impl<'t> Entries<'t> {
    /// Reads `managedFields`; `None` if they are not of the usual form.
    pub(super) fn parse(managed_fields: &'t ManagedFieldsText) -> Option<Self> {
        let text = managed_fields.as_str();
        Some(Self { text, entries: serde_json::from_str(text).ok()? })
    }

    /// The entries.
    pub(super) fn iter(&self) -> impl Iterator<Item = Entry<'_, Option<&'_ RawValue>>> {
        self.entries.iter().map(EntryText::entry)
    }

    /// The entries as `managedFields`, in order, when the one at this place has another time. The time is as objects hold it.
    pub(super) fn renewed(mut self, at: usize, time: &'t str) -> Option<ManagedFieldsText> {
        let before = std::mem::replace(&mut self.entries.get_mut(at)?.time, Cow::Borrowed(time));
        let is_in_order =
            self.entries.is_sorted_by(|one, other| one.entry().place() <= other.entry().place());
        if let (true, Cow::Borrowed(before)) = (is_in_order, before)
            && let Some(text) = replaced(self.text, before, time)
        {
            return Some(ManagedFieldsText(text));
        }
        self.entries.sort_by(|one, other| one.entry().place().cmp(&other.entry().place()));
        Some(ManagedFieldsText(to_raw_value(&self.entries).ok()?.into()))
    }
}

/// The text with another time in the place of this one, which is a part of it. A time needs no escapes in JSON.
fn replaced(text: &str, part: &str, time: &str) -> Option<Box<str>> {
    let is_time = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
    };
    let at = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let (before, rest) = text.split_at_checked(at).filter(|_| is_time(part) && is_time(time))?;
    Some([before, time, rest.strip_prefix(part)?].concat().into())
}

impl EntryText<'_> {
    fn entry(&self) -> Entry<'_, Option<&'_ RawValue>> {
        Entry {
            manager: &self.manager,
            operation: &self.operation,
            api_version: &self.api_version,
            subresource: &self.subresource,
            time: &self.time,
            fields: Some(self.fields),
        }
    }
}
