//! Parses image references, such as `registry.example:5000/team/app:1@sha256:...`, as far as the default pull policy
//! needs it.

/// The default pull policy of an image (AP-111, AP-113): `Always` if the tag is `latest` or there is neither tag nor
/// digest.
pub(super) fn default_pull_policy(reference: &str) -> &'static str {
    if is_latest(reference) { "Always" } else { "IfNotPresent" }
}

/// A malformed reference has no tag.
fn is_latest(reference: &str) -> bool {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    // A colon before the last slash belongs to a port.
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    let is_valid = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    is_valid && tag.map_or(digest.is_none(), |tag| tag == "latest")
}

fn is_name(name: &str) -> bool {
    let is_hash = name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (domain, path) = match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => (Some(first), rest),
        _ => (None, name),
    };
    !is_hash && name.len() <= 255 && domain.is_none_or(is_domain) && path.split('/').all(is_path_part)
}

fn is_registry(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost" || part.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => return host.parse::<std::net::Ipv6Addr>().is_ok(),
        Some((host, port)) => {
            let is_port = port.strip_prefix(':').is_some_and(is_number);
            return is_port && host.parse::<std::net::Ipv6Addr>().is_ok();
        }
        None => match domain.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (domain, None),
        },
    };
    port.is_none_or(is_number) && host.split('.').all(is_domain_part)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_domain_part(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('-')
        && !part.ends_with('-')
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Lower-case letters and digits, in groups separated by `.`, `_`, `__` or dashes.
fn is_path_part(part: &str) -> bool {
    let is_group = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_separator =
        |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    let mut bytes = part.bytes();
    bytes.next().is_some_and(is_group)
        && part.bytes().last().is_some_and(is_group)
        && separators.into_iter().all(is_separator)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, value)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    value.len() == length && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::default_pull_policy;

    #[test]
    fn the_tag_latest_or_none_means_always_ap_111() {
        let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for always in [
            "nginx",
            "nginx:latest",
            "host:5000/app",
            "r.example:5000/team/app",
            "r.example/app:latest",
            &format!("nginx:latest@{digest}"),
            "a/b__c/d-e--f",
        ] {
            assert_eq!(default_pull_policy(always), "Always", "{always}");
        }
        for fixed in [
            "nginx:1",
            "r.example:5000/team/app:1",
            &format!("nginx@{digest}"),
            &format!("nginx:1@{digest}"),
            // Malformed: there is no tag.
            "",
            "Nginx",
            "r.example/App",
            "nginx:",
            "a//b",
            "a___b",
            "nginx@latest",
            digest.trim_start_matches("sha256:"),
        ] {
            assert_eq!(default_pull_policy(fixed), "IfNotPresent", "{fixed}");
        }
    }
}
