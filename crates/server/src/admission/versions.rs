//! The versions of a kind: in which of them a webhook can be asked, or a policy be applied, and the conversion of objects
//! between them.

use kinds::resource::Resource;
use kinds::{Kinds, Map};

use crate::http::status::Status;
use crate::registry::decode;

/// The version of the path, and after it all others in which the same objects are served.
pub(super) fn of(kinds: &Kinds, served: &'static Resource) -> Vec<&'static Resource> {
    let is_other = |row: &&'static Resource| {
        *row != served && row.action == served.action && row.storage() == served.storage()
    };
    std::iter::once(served).chain(kinds.rows().filter(is_other)).collect()
}

/// An object of this kind, in its stored version, as one of another version.
pub(super) fn shown(object: Map, resource: &'static Resource, version: &'static Resource) -> Map {
    let current = version.current();
    let mut object = if current == resource { object } else { exchanged(object, resource, current) };
    object = decode::shown(object, version);
    object.insert("kind".to_owned(), version.kind.into());
    object.insert("apiVersion".to_owned(), version.api_version().into());
    object
}

/// The reverse of [`shown`], for what is not known to be an object of that version. What it does not say is filled in.
///
/// # Errors
/// It cannot be decoded.
pub(super) fn read(
    document: Map,
    version: &'static Resource,
    resource: &'static Resource,
) -> Result<Map, Status> {
    let read = kinds::decode::value(document.into(), version.schema).map_err(Status::internal)?;
    let mut object = read.object;
    decode::claim(&mut object, "kind", version.kind)?;
    decode::claim(&mut object, "apiVersion", &version.api_version())?;
    let mut object = decode::current(object, version)?;
    let current = version.current();
    if current != resource {
        object = exchanged(object, current, resource);
        object.insert("kind".to_owned(), resource.kind.into());
        object.insert("apiVersion".to_owned(), resource.api_version().into());
    }
    decode::default(resource, &mut object);
    Ok(object)
}

/// An object of one kind as one of another that is stored in the same form.
fn exchanged(object: Map, from: &'static Resource, to: &'static Resource) -> Map {
    let stored = match from.stored_as {
        Some(form) => (form.to)(object),
        None => object,
    };
    match to.stored_as {
        Some(form) => (form.from)(stored, to),
        None => stored,
    }
}

#[cfg(test)]
mod tests {
    use kinds::resources::core::events::{CORE_EVENTS, EVENTS};
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_comes_back_from_every_version_as_it_was() {
        let kinds = Kinds::built_in();
        let mut count = 0;
        for row in kinds.stored() {
            let versions = of(&kinds, row);
            assert_eq!(versions.first(), Some(&row));
            for version in versions.into_iter().skip(1) {
                let metadata = json!({"name": "n", "namespace": if row.is_namespaced { "ns" } else { "" }});
                let document =
                    json!({"kind": row.kind, "apiVersion": row.api_version(), "metadata": metadata});
                let object = read(document.as_object().unwrap().clone(), row, row).unwrap();
                let other = shown(object.clone(), row, version);
                assert_eq!(other["apiVersion"], json!(version.api_version()));
                assert_eq!(read(other, version, row).unwrap(), object, "{} {}", row.plural, version.version);
                count += 1;
            }
        }
        assert!(count > 4, "{count}");
    }

    #[test]
    fn events_are_the_same_in_both_groups() {
        let kinds = Kinds::built_in();
        assert!(of(&kinds, &CORE_EVENTS).contains(&&EVENTS));
        assert!(of(&kinds, &EVENTS).contains(&&CORE_EVENTS));
    }
}
