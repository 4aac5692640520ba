//! Paths of values while objects are gone through.

/// Acts on the path of an entry of a list.
pub(crate) fn at_entry<R>(path: &mut String, at: usize, act: impl FnOnce(&mut String) -> R) -> R {
    let length = path.len();
    path.push_str(&format!("[{at}]"));
    let done = act(path);
    path.truncate(length);
    done
}

/// Acts on the path of a member of an object.
pub(crate) fn at_member<R>(path: &mut String, name: &str, act: impl FnOnce(&mut String) -> R) -> R {
    let length = path.len();
    if length > 0 {
        path.push('.');
    }
    path.push_str(name);
    let done = act(path);
    path.truncate(length);
    done
}
