//! Paths and their spellings: the guard agrees with a kubelet or is stricter.

use std::collections::BTreeMap;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::kubelet::{FakeKubelet, Holder, Options};
use portcullis_testkit::mutate::dice;

use crate::guard::support::Guarded;

const CASES: u64 = 12_000;
const WORDS: [&str; 44] = [
    "pods",
    "runningpods",
    "healthz",
    "healthz/ping",
    "healthz/log",
    "healthz/syncloop",
    "configz",
    "flagz",
    "statusz",
    "stats",
    "stats/summary",
    "metrics",
    "metrics/cadvisor",
    "metrics/resource",
    "metrics/probes",
    "metrics/slis",
    "logs",
    "logs/none",
    "checkpoint/ns/p/c",
    "exec/ns/p/c",
    "attach/ns/p/c",
    "run/ns/p/c",
    "portForward/ns/p",
    "containerLogs/ns/p/c",
    "debug/pprof/cmdline",
    "debug/flags/v",
    "exec",
    "attach",
    "run",
    "portForward",
    "Pods",
    "EXEC/ns/p/c",
    "portforward/ns/p",
    "nothing",
    "..",
    ".",
    "",
    "ns",
    "p",
    "c",
    "spec",
    "pods/x",
    "debug",
    "containerLogs/ns/p/c/d",
];
/// What is put between, before or behind.
const TRICKS: [&str; 24] = [
    "/", "//", "/./", "/../", "/%2e/", "/%2e%2e/", "/.%2e/", "%2f", "%2F", "%5c", "\\", "%00", "%0a", "%20",
    "%", "%zz", ";a=b", "?x=1", "%3f", "%23", "#", "%c3%a9", "%ff", "%252f",
];

/// A path that somebody might try.
fn path(seed: u64) -> String {
    let mut next = seed * 31;
    let mut roll = |sides: usize| {
        next += 1;
        dice(next) as usize % sides
    };
    let mut path = String::from("/");
    for part in 0..=roll(3) {
        if part > 0 {
            path.push_str(if roll(3) == 0 { TRICKS[roll(TRICKS.len())] } else { "/" });
        }
        path.push_str(WORDS[roll(WORDS.len())]);
    }
    if roll(4) == 0 {
        path.push_str(TRICKS[roll(TRICKS.len())]);
    }
    // Any letter may be spelled as a number.
    for _ in 0..roll(3) {
        let at = 1 + roll(path.len());
        if let Some(letter) =
            path.get(at..=at).filter(|letter| letter.bytes().all(|b| b.is_ascii_alphabetic()))
        {
            let spelled = format!("%{:02x}", letter.as_bytes()[0]);
            path.replace_range(at..=at, &spelled);
        }
    }
    path
}

/// The target with its path decoded and encoded again, as Go's `URL.EscapedPath` does if the path has characters that no
/// URL may hold.
fn as_go_encodes(target: &str) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let mut encoded = String::new();
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                (u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap(), after)
            }
            _ => (*first, after),
        };
        match byte {
            b if b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b) => encoded.push(char::from(b)),
            b => encoded.push_str(&format!("%{b:02X}")),
        }
        rest = after;
    }
    encoded + query
}

#[test]
fn no_spelling_of_a_path_reaches_what_was_not_granted() {
    let holdings = [
        ("jane", "nodes/pods"),
        ("joe", "nodes/log"),
        ("monitoring", "nodes/metrics"),
        ("apiserver", "nodes/proxy"),
    ];
    let guarded = Guarded::start(&["--exec-requires-create=false"]);
    let grants: BTreeMap<String, Holder> = holdings
        .iter()
        .map(|(user, resource)| {
            guarded.grant(user, "get", resource);
            let grants = vec![("get".to_owned(), resource.trim_start_matches("nodes/").to_owned())];
            (format!("{user}-token"), Holder { user: (*user).to_owned(), grants })
        })
        .collect();
    // The referee: a kubelet without a guard, which knows nothing of the guard's table.
    let folder = guarded.scratch.path().join("bare");
    std::fs::create_dir(&folder).unwrap();
    let bare = FakeKubelet::start(&folder, Options { grants: Some(grants), ..Options::default() });
    let identity = |user: &str| Identity::with_token(&bare.authority(), &format!("{user}-token"));
    let mut clients: Vec<(Client, Client)> = holdings
        .iter()
        .map(|(user, _)| (guarded.client(user), Client::new(bare.address(), &identity(user))))
        .collect();
    let (mut forwarded, mut stricter) = (0, Vec::new());
    for seed in 0..CASES {
        let path = path(seed);
        let at = seed as usize % clients.len();
        let (user, resource) = holdings[at];
        let (guard, kubelet) = &mut clients[at];
        guarded.kubelet.forget();
        // A request that cannot be read ends the connection; the client makes another.
        let answer = guard.ask("GET", &path, None).map(|answer| answer.code).unwrap_or(400);
        let alone = kubelet.ask("GET", &path, None).map(|answer| answer.code).unwrap_or(400);
        let reached = guarded.kubelet.requests();
        for seen in &reached {
            forwarded += 1;
            // As the guard spelled it, the kubelet gives this caller what it may have, and no more.
            let code = kubelet.ask("GET", &seen.path, None).unwrap().code;
            assert!(
                !matches!(code, 307 | 401 | 403),
                "{user} {resource}: {path} became {}: {code}",
                seen.path
            );
        }
        if answer != alone {
            // Where they differ, nothing went through that the kubelet would not have let through.
            assert!(reached.is_empty(), "{user} {path}: {answer}, a kubelet {alone}");
            stricter.push((at, path, answer, alone));
        }
    }
    assert!(forwarded > 500, "{forwarded}");
    // Spellings that older kubelets read otherwise are 404 (DIVERGES). Go encodes a path again before it routes it if the
    // path has characters that no URL may hold: `%2f` becomes a slash. The guard does the same, the fake kubelet does not. So
    // such a path can be redirected, or lead to an endpoint that the caller may not use: exactly as the fake kubelet answers
    // the path that Go would have routed.
    for (at, path, answer, alone) in &stricter {
        let is_no_url = path.contains(['\\', '"', '<', '>', '^', '`', '{', '|', '}']);
        if is_no_url && !matches!(answer, 400 | 404) {
            let routed = as_go_encodes(path);
            let code = clients[*at].1.ask("GET", &routed, None).unwrap().code;
            assert!(
                matches!(code, 307 | 403) && *answer == code,
                "{path}: {answer}, a kubelet {code} for {routed}"
            );
        } else {
            assert!(matches!(answer, 400 | 404), "{path}: {answer}, a kubelet {alone}");
        }
    }
    assert!(stricter.len() < 600, "{} of {CASES}: {:?}", stricter.len(), &stricter[..20]);
}
