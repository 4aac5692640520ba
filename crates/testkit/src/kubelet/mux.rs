//! Which path reaches a handler: the multiplexer of a kubelet, which runs before authentication (KA-6 to KA-8). It is
//! written from the rules and shares nothing with the tables of the product, which tests compare with it.

use std::borrow::Cow;

/// Patterns that match one path and nothing below it (KA-7, KA-11, KA-14, KA-15).
const EXACT: &[&str] = &[
    "/healthz",
    "/healthz/ping",
    "/healthz/log",
    "/healthz/syncloop",
    "/healthz/device-plugin",
    "/metrics",
    "/metrics/cadvisor",
    "/metrics/resource",
    "/metrics/probes",
    "/metrics/slis",
];
/// Exact patterns of the debug group (KA-20, KA-21).
const EXACT_DEBUG: &[&str] = &["/configz", "/flagz", "/statusz", "/debug/flags/v"];

/// Patterns that match their root, with and without a slash, and all below it (KA-7).
const ROOTED: &[&str] = &["/pods"];
/// Those of the debug group.
const ROOTED_DEBUG: &[&str] = &["/run", "/exec", "/attach", "/portForward", "/containerLogs"];

/// Patterns that match with the slash only; without it they redirect (KA-8).
const FOLDERS: &[&str] = &["/stats"];
/// Those of the debug group.
const FOLDERS_DEBUG: &[&str] = &["/runningpods", "/checkpoint", "/logs", "/debug/pprof"];
/// Those that are served only to say that the debug group is off (KA-22).
const FOLDERS_DISABLED: &[&str] =
    &["/run", "/exec", "/attach", "/portForward", "/containerLogs", "/runningpods", "/debug/pprof", "/logs"];

/// The result for a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Matched {
    /// No pattern: 404 for everybody.
    Nothing,
    /// 307 for everybody, to this path.
    Redirect(String),
    /// A handler, behind the filter that authenticates and authorizes.
    Handler,
}

/// Looks a path up as it was sent (KA-7, KA-8). A `CONNECT` is not brought into canonical form.
pub(super) fn find(path: &str, debug: bool, connect: bool) -> Matched {
    let clean = if connect { Cow::Borrowed(path) } else { clean(path) };
    let none: &'static [&'static str] = &[];
    let (exact, rooted, folders) =
        if debug { (EXACT_DEBUG, ROOTED_DEBUG, FOLDERS_DEBUG) } else { (none, none, FOLDERS_DISABLED) };
    let found = |patterns: [&'static [&'static str]; 2], wanted: &[Below]| {
        let mut patterns = patterns.into_iter().flatten();
        patterns.find(|pattern| below(&clean, pattern).is_some_and(|below| wanted.contains(&below)))
    };
    if let Some(folder) = found([FOLDERS, folders], &[Below::Same]) {
        return Matched::Redirect(format!("{folder}/"));
    }
    if clean != path {
        return Matched::Redirect(clean.into_owned());
    }
    let matched = found([EXACT, exact], &[Below::Same])
        .or_else(|| found([ROOTED, rooted], &[Below::Same, Below::Under]))
        .or_else(|| found([FOLDERS, folders], &[Below::Under]));
    if matched.is_some() { Matched::Handler } else { Matched::Nothing }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Same,
    Under,
}

/// Where a path as sent lies from a pattern: cut at slashes, then every segment decoded (KA-7).
fn below(path: &str, pattern: &str) -> Option<Below> {
    if !path.contains('%') {
        let rest = path.strip_prefix(pattern)?;
        return match rest.as_bytes().first() {
            None => Some(Below::Same),
            Some(b'/') => Some(Below::Under),
            Some(_) => None,
        };
    }
    let mut segments = path.split('/');
    for wanted in pattern.split('/') {
        if decoded(segments.next()?)?.as_ref() != wanted {
            return None;
        }
    }
    Some(if segments.next().is_some() { Below::Under } else { Below::Same })
}

/// The canonical form of a path: no empty segment, no `.`, no `..`; a last slash stays (KA-8).
fn clean(path: &str) -> Cow<'_, str> {
    if path.starts_with('/') && !path.contains("//") && !path.contains("/.") {
        return Cow::Borrowed(path);
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let slash = if path.ends_with('/') && !kept.is_empty() { "/" } else { "" };
    Cow::Owned(format!("/{}{slash}", kept.join("/")))
}

/// Decodes `%XX`. Nothing: what was sent is no valid encoding.
pub(super) fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    // A kubelet works on bytes; no pattern and no name holds others than these.
    Some(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(path: &str) -> Matched {
        Matched::Redirect(path.to_owned())
    }

    #[test]
    fn a_path_is_cut_before_it_is_decoded_ka_7() {
        for path in [
            "/pods",
            "/pods/",
            "/pods/x",
            "/%70ods",
            "/healthz/ping",
            "/h%65althz/ping",
            "/exec",
            "/logs/%2e",
        ] {
            assert_eq!(find(path, true, false), Matched::Handler, "{path}");
        }
        for path in [
            "/",
            "",
            "/podsx",
            "/healthz/",
            "/healthz%2Fping",
            "/configz/x",
            "/Pods",
            "/debug/flags/v/",
            "/%2Fpods",
        ] {
            let expected = if path.is_empty() { to("/") } else { Matched::Nothing };
            assert_eq!(find(path, true, false), expected, "{path}");
        }
    }

    #[test]
    fn redirects_lead_to_the_canonical_form_ka_8() {
        for (path, target) in [
            ("//pods", "/pods"),
            ("/./pods", "/pods"),
            ("/x/../pods/", "/pods/"),
            ("/pods/.", "/pods"),
            ("/..", "/"),
            ("/nosuch//x", "/nosuch/x"),
            ("/logs", "/logs/"),
            ("/%6Cogs", "/logs/"),
            ("//stats", "/stats/"),
            ("/debug/pprof", "/debug/pprof/"),
            ("/checkpoint", "/checkpoint/"),
        ] {
            assert_eq!(find(path, true, false), to(target), "{path}");
        }
        assert_eq!(find("/%2e%2e/pods", true, false), Matched::Nothing);
        assert_eq!(find("//pods", true, true), Matched::Nothing, "a CONNECT is taken as it comes");
    }

    #[test]
    fn without_the_debug_group_its_paths_are_stubs_or_unknown_ka_22() {
        assert_eq!(find("/exec", false, false), to("/exec/"));
        assert_eq!(find("/exec/ns/p/c", false, false), Matched::Handler);
        assert_eq!(find("/pods", false, false), Matched::Handler);
        for path in ["/configz", "/checkpoint/ns/p/c", "/checkpoint", "/flagz", "/statusz", "/debug/flags/v"]
        {
            assert_eq!(find(path, false, false), Matched::Nothing, "{path}");
        }
    }
}
