//! The routers of kubelets, read once more and plainly: Go's multiplexer that matches the path as sent, the older one
//! that matches the decoded path, and what each pattern needs.

/// A pattern of a kubelet, and what it needs; the strongest thing that a request for it can do.
pub(crate) struct Pattern {
    pub(crate) text: &'static str,
    pub(crate) subresources: &'static [&'static str],
    pub(crate) is_entering: bool,
}

const fn pattern(text: &'static str, subresources: &'static [&'static str]) -> Pattern {
    Pattern { text, subresources, is_entering: false }
}

const fn entering(text: &'static str) -> Pattern {
    Pattern { text, subresources: &["proxy"], is_entering: true }
}

/// KA-11 to KA-21 with KA-30 to KA-39a, as a kubelet registers them.
pub(crate) const PATTERNS: &[Pattern] = &[
    pattern("/healthz", &["healthz", "proxy"]),
    pattern("/healthz/ping", &["healthz", "proxy"]),
    pattern("/healthz/log", &["healthz", "proxy"]),
    pattern("/healthz/syncloop", &["healthz", "proxy"]),
    pattern("/healthz/device-plugin", &["healthz", "proxy"]),
    pattern("/pods", &["pods", "proxy"]),
    pattern("/pods/", &["pods", "proxy"]),
    pattern("/stats/", &["stats"]),
    pattern("/metrics", &["metrics"]),
    pattern("/metrics/cadvisor", &["metrics"]),
    pattern("/metrics/resource", &["metrics"]),
    pattern("/metrics/probes", &["metrics"]),
    pattern("/metrics/slis", &["metrics"]),
    entering("/run"),
    entering("/run/"),
    entering("/exec"),
    entering("/exec/"),
    entering("/attach"),
    entering("/attach/"),
    entering("/portForward"),
    entering("/portForward/"),
    pattern("/containerLogs", &["proxy"]),
    pattern("/containerLogs/", &["proxy"]),
    pattern("/configz", &["configz", "proxy"]),
    pattern("/runningpods/", &["pods", "proxy"]),
    pattern("/checkpoint/", &["checkpoint"]),
    pattern("/flagz", &["configz"]),
    pattern("/statusz", &["statusz"]),
    pattern("/logs/", &["log"]),
    pattern("/debug/pprof/", &["proxy"]),
    pattern("/debug/flags/v", &["proxy"]),
];

/// What a multiplexer does with a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Moved,
    Pattern(&'static str),
}

pub(crate) fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            decoded.push(u8::from_str_radix(digits, 16).unwrap());
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    Some(decoded)
}

/// The canonical form: resolves the path as a shell would, and keeps a slash at the end.
fn canonical(path: &[u8]) -> Vec<u8> {
    let mut stack: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                stack.pop();
            }
            part => stack.push(part),
        }
    }
    let mut canonical = vec![b'/'];
    canonical.extend(stack.join(&b'/'));
    if path.ends_with(b"/") && canonical.len() > 1 {
        canonical.push(b'/');
    }
    canonical
}

/// Since Go 1.22: the path as sent, cut at slashes, each part decoded for the comparison.
pub(crate) fn newer(path: &str) -> Found {
    if canonical(path.as_bytes()) != path.as_bytes() {
        return Found::Moved;
    }
    let parts: Vec<Vec<u8>> = path.split('/').skip(1).map(|part| percent_decode(part).unwrap()).collect();
    let matches = |pattern: &str| {
        let wanted: Vec<&[u8]> = pattern.split('/').skip(1).map(str::as_bytes).collect();
        match wanted.split_last() {
            Some(([], front)) => parts.len() >= wanted.len() && front.iter().zip(&parts).all(|(a, b)| a == b),
            _ => wanted.len() == parts.len() && wanted.iter().zip(&parts).all(|(a, b)| a == b),
        }
    };
    choose(path, matches)
}

/// Before: the decoded path, put into canonical form.
pub(crate) fn older(path: &str) -> Found {
    let decoded = percent_decode(path).unwrap();
    if canonical(&decoded) != decoded {
        return Found::Moved;
    }
    let matches = |pattern: &str| {
        if pattern.ends_with('/') {
            decoded.starts_with(pattern.as_bytes())
        } else {
            decoded == pattern.as_bytes()
        }
    };
    choose(path, matches)
}

fn choose(path: &str, matches: impl Fn(&str) -> bool) -> Found {
    let longest =
        PATTERNS.iter().filter(|pattern| matches(pattern.text)).max_by_key(|pattern| pattern.text.len());
    if let Some(pattern) = longest {
        return Found::Pattern(pattern.text);
    }
    let decoded = percent_decode(path).unwrap();
    let is_moved =
        PATTERNS.iter().any(|pattern| pattern.text.strip_suffix('/').map(str::as_bytes) == Some(&decoded));
    if is_moved { Found::Moved } else { Found::Nothing }
}
