//! Collections that are watched a part at a time: of the pods and the resource slices each node watches its own. A change
//! is then brought to the one that it concerns, and not held up against what each of thousands wants.

use std::borrow::Cow;

use kinds::resource::Resource;
use portcullis_kinds as kinds;
use portcullis_store::Entry;
use serde::Deserialize;

use super::selection::Selection;
use super::storage;

/// The field that tells the parts apart.
const FIELD: &str = "spec.nodeName";

/// The kinds, as their keys begin.
const PARTED: [&str; 2] = ["/core/pods/", "/resource.k8s.io/resourceslices/"];

/// The part that an object is in: the node that it names. It has the value that selectors are compared with.
pub(crate) fn of(entry: &Entry) -> Option<Box<str>> {
    #[derive(Deserialize)]
    struct Object<'o> {
        #[serde(borrow)]
        spec: Spec<'o>,
    }
    #[derive(Deserialize)]
    struct Spec<'o> {
        #[serde(borrow, rename = "nodeName", default)]
        node_name: Cow<'o, str>,
    }
    if !PARTED.iter().any(|prefix| entry.key.starts_with(prefix)) {
        return None;
    }
    let object: Object<'_> = serde_json::from_slice(&entry.value).ok()?;
    let node = object.spec.node_name;
    (!node.is_empty()).then(|| node.into())
}

/// The one part that a selection is about, if it is about one.
pub(crate) fn asked_for<'s>(resource: &'static Resource, selection: &'s Selection) -> Option<&'s str> {
    let prefix = storage::prefix(resource, "");
    let is_parted = PARTED.contains(&prefix.as_str());
    selection.field(FIELD).filter(|node| is_parted && !node.is_empty())
}

#[cfg(test)]
mod tests {
    use portcullis_store::Revision;

    use super::*;

    fn part(key: &str, value: &str) -> Option<Box<str>> {
        let value = value.to_owned().into();
        of(&Entry { key: key.into(), value, created: Revision(1), modified: Revision(1) })
    }

    #[test]
    fn the_part_of_a_pod_is_the_node_that_its_spec_names() {
        let pod = r#"{"metadata":{"labels":{"nodeName":"a"}},"spec":{"x":{"nodeName":"b"},"nodeName":"c"},"status":{}}"#;
        assert_eq!(part("/core/pods/default/p", pod).as_deref(), Some("c"));
        assert_eq!(
            part("/core/pods/default/p", r#"{"spec":{"nodeName":"a\u002db"}}"#).as_deref(),
            Some("a-b")
        );
        assert_eq!(part("/core/configmaps/default/p", pod), None);
        for none in [r#"{"spec":{}}"#, r#"{"spec":{"nodeName":""}}"#, "{}", "x", r#"{"spec":{"nodeName":1}}"#]
        {
            assert_eq!(part("/core/pods/default/p", none), None, "{none}");
        }
    }
}
