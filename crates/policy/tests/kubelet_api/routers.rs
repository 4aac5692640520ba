//! The authorized path is the one that every kubelet serves, however it is spelled.

use portcullis_apimachinery::target::Target;
use portcullis_policy::kubelet_api::{KubeletRequest, Route, Router, Settings, forwardable};
use proptest::prelude::*;

use crate::kubelet_api::model::{Found, PATTERNS, newer, older, percent_decode};

/// Paths of the words that endpoints are made of, and of what confuses routers; letters are encoded here and there.
fn path() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => proptest::sample::select(vec![
            "pods", "exec", "run", "attach", "portForward", "containerLogs", "logs", "healthz", "ping", "metrics",
            "cadvisor", "stats", "summary", "configz", "runningpods", "checkpoint", "flagz", "statusz", "debug",
            "pprof", "flags", "v", "slis",
        ]).prop_map(str::to_owned),
        4 => proptest::sample::select(vec![
            "", ".", "..", "/", "\\", "%", "?", "#", " ", "é", "a/../exec", "pods/../exec", "..;", "%2e%2e", "Exec",
            "a\"b", "{x}", "\0", "\u{85}", "a+b",
        ]).prop_map(str::to_owned),
        2 => "[a-z./%]{0,4}",
    ];
    // For each byte: sent as it is where that is possible, or encoded, in capital digits or small ones.
    (proptest::collection::vec((word, any::<[u8; 16]>(), 0u8..4), 1..5), any::<bool>()).prop_map(
        |(words, slash)| {
            let mut path = String::new();
            for (word, dice, zeal) in words {
                path.push('/');
                for (byte, die) in word.bytes().zip(dice.into_iter().cycle()) {
                    let must = matches!(byte, b'%' | b'?' | b' ' | 0..=31 | 127..);
                    match die % 4 {
                        _ if !must && die / 64 >= zeal => path.push(char::from(byte)),
                        0 | 1 => path.push_str(&format!("%{byte:02x}")),
                        _ => path.push_str(&format!("%{byte:02X}")),
                    }
                }
            }
            path + if slash { "/" } else { "" }
        },
    )
}

fn needs(method: &str, path: &str, settings: &Settings) -> Vec<(&'static str, &'static [&'static str])> {
    let request = KubeletRequest::new(method, Target::from_wire(path).unwrap(), settings);
    request.checks().map(|check| (check.verb, check.subresources)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30_000))]

    #[test]
    fn the_endpoint_that_is_authorized_is_the_one_that_every_kubelet_serves(path in path()) {
        let route = Router::new(true).route(&path);
        let Some(forwarded) = forwardable(&path) else { return Ok(()) };
        // Both routers read the spelling that is forwarded alike, and as the router here read the one that was sent.
        let found = newer(&forwarded);
        prop_assert_eq!(&older(&forwarded), &found, "{}", forwarded);
        match route {
            Route::Endpoint(endpoint) => {
                let Found::Pattern(pattern) = found else { panic!("{path}: {found:?}") };
                prop_assert_eq!(pattern.strip_suffix('/').unwrap_or(pattern), endpoint.path);
                let pattern = PATTERNS.iter().find(|row| row.text == pattern).unwrap();
                let mut expected = vec![("get", pattern.subresources)];
                if pattern.is_entering {
                    expected.push(("create", pattern.subresources));
                }
                prop_assert_eq!(needs("GET", &path, &Settings::default()), expected, "{}", path);
                prop_assert_eq!(needs("POST", &path, &Settings::default()), vec![("create", pattern.subresources)]);
            }
            Route::Redirect(_) => prop_assert_eq!(found, Found::Moved),
            Route::NotFound => prop_assert_eq!(found, Found::Nothing),
            Route::Malformed => prop_assert!(false, "what is malformed is not forwarded: {}", path),
        }
    }

    #[test]
    fn ka_7_ka_8_paths_go_where_the_multiplexer_sends_them(path in path()) {
        // Bytes that may not stand in a path are encoded first; what that does to the rest is not modelled here.
        let is_plain = path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/.%+;~_-".contains(&b));
        if !is_plain || percent_decode(&path).is_none() {
            return Ok(());
        }
        let route = Router::new(true).route(&path);
        match newer(&path) {
            Found::Nothing => prop_assert_eq!(route, Route::NotFound),
            Found::Moved => prop_assert!(matches!(route, Route::Redirect(_)), "{} {:?}", path, route),
            Found::Pattern(pattern) => {
                let Route::Endpoint(endpoint) = route else { panic!("{path}: {route:?}, not {pattern}") };
                prop_assert_eq!(pattern.strip_suffix('/').unwrap_or(pattern), endpoint.path);
            }
        }
    }

    #[test]
    fn settings_beyond_kubernetes_never_ask_less(path in path(), method in "GET|POST|PUT|HEAD|DELETE", on: bool) {
        let Ok(target) = Target::from_wire(&path) else { return Ok(()) };
        let kubelet = Settings { fine_grained: on, exec_requires_create: false, finer_subresources: false };
        let theirs = needs(&method, target.as_str(), &kubelet);
        let ours = needs(&method, target.as_str(), &Settings { exec_requires_create: true, ..kubelet });
        prop_assert!(ours.starts_with(&theirs), "{:?} {:?}", ours, theirs);
    }
}
