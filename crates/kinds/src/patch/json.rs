//! JSON patches: RFC 6902 with the leniencies of Kubernetes (AP-61).

use std::io;

use portcullis_apimachinery::json::MAX_DEPTH;
use serde_json::Value;

use super::error::{MAX_OPERATIONS, PatchError};
use crate::Map;

/// The maximum number of JSON bytes that all `copy` operations of a patch may add.
pub const MAX_COPIED: usize = 3 * 1024 * 1024;

/// The maximum number of entries and members that all operations of a patch together may move or look through, apart
/// from those that the patch itself contains. An entry that is added at the begin of a list moves all others.
///
/// DIVERGES: Kubernetes has no such limit. A patch of 10,000 operations would move ten thousand million entries.
const MAX_MOVED: usize = 50_000_000;

/// The maximum depth between two operations; a stored object may be [`MAX_DEPTH`] deep.
const MAX_WORKING_DEPTH: usize = 4 * MAX_DEPTH;

/// The members of an operation.
pub(super) const MEMBERS: [&str; 4] = ["from", "op", "path", "value"];

/// Applies the operations in order: all or none.
pub(super) fn apply(current: Map, operations: Vec<Value>) -> Result<Map, PatchError> {
    let operations: Vec<Operation> =
        operations.into_iter().enumerate().map(Operation::read).collect::<Result<_, _>>()?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let root = Value::Object(current);
    let mut document = Document { depth: depth(&root), root, copied: 0, moved: 0 };
    for (index, operation) in operations.into_iter().enumerate() {
        document
            .apply(operation)
            .map_err(|reason| PatchError::Unprocessable(format!("operation {index}: {reason}")))?;
    }
    match document.root {
        Value::Object(object) => Ok(object),
        _ => Err(PatchError::NotAnObject),
    }
}

/// An operation. A member that is `null` counts as missing, except for `value`.
struct Operation {
    op: Option<String>,
    path: Option<String>,
    from: Option<String>,
    value: Option<Value>,
}

impl Operation {
    fn read((index, operation): (usize, Value)) -> Result<Self, PatchError> {
        let malformed = |what: &str| PatchError::Malformed(format!("operation {index}: {what}"));
        let mut members = match operation {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            _ => return Err(malformed("an operation is an object")),
        };
        let mut text = |name: &str| match members.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(malformed(&format!("{name:?} is a string"))),
        };
        let (op, path, from) = (text("op")?, text("path")?, text("from")?);
        Ok(Self { op, path, from, value: members.remove("value") })
    }
}

/// The result of one step of a patch, or the error message.
type Step<T> = Result<T, String>;

struct Document {
    root: Value,
    /// An upper bound of the depth of the document.
    depth: usize,
    /// The number of bytes copied.
    copied: usize,
    /// The number of entries and members moved or looked through.
    moved: usize,
}

impl Document {
    fn apply(&mut self, operation: Operation) -> Step<()> {
        let Operation { op, path, from, value } = operation;
        let path = || path.as_deref().ok_or_else(|| "it has no path".to_owned());
        let from = || from.as_deref().ok_or_else(|| "it has no from".to_owned());
        match op.as_deref().unwrap_or("unknown") {
            "add" => {
                let value = value.unwrap_or_default();
                let deep = depth(&value);
                self.add(path()?, value, deep)
            }
            "remove" => self.remove(path()?).map(drop),
            "replace" => self.replace(path()?, value.unwrap_or_default()),
            "move" => {
                let (from, path) = (from()?, path()?);
                let deep = self.depth.saturating_sub(levels(from));
                let value = self.remove(from)?;
                self.add(path, value, deep)
            }
            "copy" => {
                let (from, path) = (from()?, path()?);
                let value = self.find(from)?.cloned().unwrap_or_default();
                self.copied = self.copied.saturating_add(size(&value));
                if self.copied > MAX_COPIED {
                    return Err(format!("copies may not add more than {MAX_COPIED} bytes"));
                }
                let deep = depth(&value);
                self.add(path, value, deep)
            }
            "test" => self.test(path()?, value.unwrap_or_default()),
            op => Err(format!("{op:?} is not an operation: use add, copy, move, remove, replace or test")),
        }
    }

    fn add(&mut self, path: &str, value: Value, deep: usize) -> Step<()> {
        self.grow(path, &value, deep)?;
        let (place, key) = self.place(path)?;
        match place {
            Value::Object(members) => {
                members.insert(key, value);
            }
            Value::Array(entries) if key == "-" => entries.push(value),
            Value::Array(entries) => {
                let index = index(&key, entries.len() + 1)?;
                let after = entries.len().saturating_sub(index);
                entries.insert(index, value);
                self.spend(after)?;
            }
            _ => return Err(missing(path)),
        }
        Ok(())
    }

    /// A missing member is added (AP-61).
    fn replace(&mut self, path: &str, value: Value) -> Step<()> {
        self.grow(path, &value, depth(&value))?;
        if path.is_empty() {
            if !matches!(value, Value::Array(_) | Value::Object(_)) {
                return Err("the whole can only be replaced by an object or a list".to_owned());
            }
            self.root = value;
            return Ok(());
        }
        let (place, key) = self.place(path)?;
        match place {
            Value::Object(members) => {
                members.insert(key, value);
            }
            Value::Array(entries) => {
                let index = index(&key, entries.len())?;
                if let Some(entry) = entries.get_mut(index) {
                    *entry = value;
                }
            }
            _ => return Err(missing(path)),
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Step<Value> {
        let (place, key) = self.place(path)?;
        match place {
            Value::Object(members) => members.remove(&key).ok_or_else(|| missing(path)),
            Value::Array(entries) => {
                let index = index(&key, entries.len())?;
                let after = entries.len().saturating_sub(index);
                let removed = entries.remove(index);
                self.spend(after)?;
                Ok(removed)
            }
            _ => Err(missing(path)),
        }
    }

    /// A missing member is `null`.
    fn test(&mut self, path: &str, value: Value) -> Step<()> {
        let found = if path.is_empty() { Some(&self.root) } else { self.find(path)? };
        match found.unwrap_or(&Value::Null) == &value {
            true => Ok(()),
            false => Err(format!("the value at {path:?} is another one")),
        }
    }

    /// The value at a path; `None` for a missing member.
    fn find(&mut self, path: &str) -> Step<Option<&Value>> {
        let (place, key) = self.place(path)?;
        match place {
            Value::Object(members) => Ok(members.get(&key)),
            Value::Array(entries) => Ok(entries.get(index(&key, entries.len())?)),
            _ => Err(missing(path)),
        }
    }

    /// Returns the parent of the last path segment, and that segment. Anything before the first slash is ignored
    /// (AP-61).
    fn place(&mut self, path: &str) -> Step<(&mut Value, String)> {
        let (_, path) = path.split_once('/').ok_or_else(|| missing(path))?;
        let mut parts = path.split('/').map(unescaped);
        let mut key = parts.next().unwrap_or_default();
        let mut place = &mut self.root;
        for next in parts {
            let inner = match place {
                Value::Object(members) => members.get_mut(&key),
                Value::Array(entries) => {
                    let index = index(&key, entries.len())?;
                    entries.get_mut(index)
                }
                _ => None,
            };
            place =
                inner.filter(|inner| inner.is_object() || inner.is_array()).ok_or_else(|| missing(path))?;
            key = next;
        }
        Ok((place, key))
    }

    /// Refuses a patch that moves or looks through too much.
    fn spend(&mut self, values: usize) -> Step<()> {
        self.moved = self.moved.saturating_add(values);
        match self.moved > MAX_MOVED {
            true => Err(format!("the operations may not move more than {MAX_MOVED} entries of lists")),
            false => Ok(()),
        }
    }

    /// Refuses a change that would nest the document too deeply. `deep` is an upper bound of the depth of the value.
    fn grow(&mut self, path: &str, value: &Value, mut deep: usize) -> Step<()> {
        let above = levels(path);
        if above + deep > MAX_WORKING_DEPTH {
            deep = depth(value);
            self.spend(values(value))?;
        }
        if above + deep > MAX_WORKING_DEPTH {
            return Err(format!("the result would be nested deeper than {MAX_WORKING_DEPTH} levels"));
        }
        self.depth = self.depth.max(above + deep);
        Ok(())
    }
}

/// The number of levels above the target of a path.
fn levels(path: &str) -> usize {
    path.matches('/').count()
}

fn missing(path: &str) -> String {
    format!("there is nothing at {path:?}")
}

/// Unescapes a path segment.
fn unescaped(part: &str) -> String {
    match part.contains('~') {
        true => part.replace("~1", "/").replace("~0", "~"),
        false => part.to_owned(),
    }
}

/// Parses the index of an entry in a list of this length; negative numbers count from the end (AP-61).
fn index(key: &str, length: usize) -> Step<usize> {
    let outside = || format!("there is no entry {key:?} among {length}");
    let number: i64 = key.parse().map_err(|_| format!("{key:?} is not the number of an entry"))?;
    let distance = usize::try_from(number.unsigned_abs()).map_err(|_| outside())?;
    let index = if number < 0 { length.checked_sub(distance) } else { Some(distance) };
    index.filter(|index| *index < length).ok_or_else(outside)
}

/// The size of a value in bytes of JSON.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

/// The number of values in a value, with itself.
fn values(value: &Value) -> usize {
    let inner: usize = match value {
        Value::Array(entries) => entries.iter().map(values).sum(),
        Value::Object(members) => members.values().map(values).sum(),
        _ => 0,
    };
    inner.saturating_add(1)
}

/// The nesting depth.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(entries) => entries.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    inner.unwrap_or_default() + 1
}
