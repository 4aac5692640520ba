//! Tokens of issuers (AN-10): the recorded configurations and tokens, with what a kube-apiserver 1.36 made of them, and issuers and
//! callers that behave badly.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use portcullis_pki::KeyPair;
use portcullis_pki::jwt::SigningKey;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use portcullis_testkit::{program, recorded, wait};
use serde_json::{Value, json};

use crate::authorization::support::{Running, refused, text};

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const JSON: &str = "Content-Type: application/json";
/// How many servers run side by side.
const LANES: usize = 2;

/// A shell script that stops the previous server and starts one for a configuration. Exit code 3: the server did not start.
const START: &str = r#"
end() {
  if [ -f "$WORK/pid" ]; then
    kill "$(cat "$WORK/pid")" 2>/dev/null
    while [ ! -f "$WORK/ended" ]; do sleep 0.05; done
  fi
  rm -rf "$WORK/pid" "$WORK/ended" "$WORK/data" "$WORK/out"
}
end
[ -n "$AUTH_CONFIG" ] || exit 0
: >"$WORK/out"
(
  "$PROGRAM" serve --secure-port 0 --bind-address 127.0.0.1 --data-dir "$WORK/data" \
    --authentication-config "$AUTH_CONFIG" $MORE $FLAGS >"$WORK/out" 2>>"$WORK/log" &
  echo $! >"$WORK/pid"
  wait $!
  : >"$WORK/ended"
) </dev/null >/dev/null 2>&1 &
until grep -q '^Serving on' "$WORK/out"; do
  if [ -f "$WORK/ended" ]; then exit 3; fi
  sleep 0.05
done
# The administrator of the recordings is called admin.
cd "$WORK/data"
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout admin.key -out admin.csr -subj /O=system:masters/CN=admin 2>>"$WORK/log"
echo extendedKeyUsage=clientAuth >admin.ext
openssl x509 -req -days 1 -in admin.csr -CA ca.crt -CAkey ca.key -set_serial 7 -extfile admin.ext -out admin.crt 2>>"$WORK/log"
{
  grep -E '^ +(server|certificate-authority-data):' admin.kubeconfig
  echo "client-certificate-data: $(base64 -w 0 admin.crt)"
  echo "client-key-data: $(base64 -w 0 admin.key)"
} >"$KUBECONFIG_OUT"
"#;

/// The checker that came with the recordings, with them.
struct Checker {
    folder: Scratch,
    work: Scratch,
    start: PathBuf,
}

impl Checker {
    fn unpacked() -> Self {
        let (folder, work) = (Scratch::new(), Scratch::new());
        for name in ["configs.jsonl", "jwt_cases.py", "keys.json", "tokens.jsonl"] {
            recorded::unpacked(&folder, &format!("authentication-jwt/{name}"));
        }
        let start = work.write("start.sh", START);
        Self { folder, work, start }
    }

    fn shell(&self, command: &mut Command, more: &str) -> Finished {
        command.env("WORK", self.work.path()).env("PROGRAM", program!().path()).env("MORE", more);
        Finished::of(command)
    }

    /// Checks some configurations with further flags, and returns what the checker prints.
    fn check(&self, port: u16, only: &[&str], more: &str) -> String {
        let mut command = tool::command("python3");
        command.arg(self.folder.path().join("jwt_cases.py")).args(["check", "--dir"]).arg(self.folder.path());
        command.args(["--port", &port.to_string(), "--only", &only.join(",")]);
        command.arg("--start").arg(format!("sh {}", self.start.display()));
        let finished = self.shell(&mut command, more);
        let end = self.shell(Command::new("sh").arg(&self.start).env("AUTH_CONFIG", ""), "");
        assert_eq!(end.code, 0, "{end:?}");
        assert!(finished.last_line().contains(" checked, "), "{finished:#?}");
        finished.stdout
    }
}

/// A port that nobody uses.
fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn configurations() -> Vec<String> {
    let lines = recorded::lines("authentication-jwt/configs.jsonl");
    lines.iter().map(|line| line["config"].as_str().unwrap().to_owned()).collect()
}

/// Checks all, and returns the differences and the number checked.
fn checked(names: &[String], more: &str) -> (Vec<String>, usize) {
    let found = Mutex::new((Vec::new(), 0));
    thread::scope(|scope| {
        for lane in 0..LANES {
            let found = &found;
            let only: Vec<&str> = names.iter().skip(lane).step_by(LANES).map(String::as_str).collect();
            scope.spawn(move || {
                let printed = Checker::unpacked().check(free_port(), &only, more);
                let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
                let last = lines.pop().unwrap();
                let count: usize = last.split(' ').next().unwrap().parse().unwrap();
                let mut found = found.lock().unwrap();
                found.0.extend(lines);
                found.1 += count;
            });
        }
    });
    found.into_inner().unwrap()
}

#[test]
fn the_recorded_configurations_and_tokens_are_answered_as_recorded_an_10() {
    let names = configurations();
    let tokens = recorded::lines("authentication-jwt/tokens.jsonl").len();
    assert_eq!((names.len(), tokens), (88, 303));
    let (differences, checked) = checked(&names, "--jwt-allow-system-names");
    assert_eq!(checked, names.len() + tokens);
    // The one that is answered differently on purpose: headers have at most 64 KiB. See docs/compatibility.md.
    let (differing, got) = parted(&differences);
    assert_eq!(differing, ["basic.large-700k"], "{}", differences.join("\n"));
    assert!(got.iter().all(|line| line.ends_with(r#"{"code": 431}"#)), "{got:?}");
}

/// The names of the tokens that are answered differently, and how.
fn parted(differences: &[String]) -> (Vec<&str>, Vec<&str>) {
    let lines = || differences.iter().map(String::as_str);
    let mut names: Vec<&str> = lines().filter(|line| !line.starts_with(' ')).collect();
    names.sort_unstable();
    (names, lines().filter(|line| line.trim().starts_with("got")).collect())
}

/// The traps that are not copied: names of Kubernetes itself, from a claim.
#[test]
fn names_that_begin_with_system_are_refused_by_default() {
    let names: Vec<String> = ["basic", "prefixes", "no-prefix"].map(str::to_owned).to_vec();
    let (differences, checked) = checked(&names, "");
    let lines = recorded::lines("authentication-jwt/tokens.jsonl");
    let is_checked = |line: &&Value| names.iter().any(|name| line["config"] == **name);
    assert_eq!(checked, names.len() + lines.iter().filter(is_checked).count());
    let expected = [
        "basic.large-700k",
        "basic.user-anonymous",
        "basic.user-node",
        "basic.user-system-admin",
        "no-prefix.authenticated-group",
        "no-prefix.masters",
        "no-prefix.unauthenticated-group",
    ];
    let (differing, got) = parted(&differences);
    assert_eq!(differing, expected, "{}", differences.join("\n"));
    let refused = got.iter().filter(|line| line.ends_with(r#"{"code": 401}"#)).count();
    assert_eq!(refused, expected.len() - 1, "{got:?}");
}

/// An issuer whose answers a test decides.
struct Issuer {
    service: WebhookService,
    keys: Arc<Mutex<Vec<Value>>>,
}

impl Issuer {
    /// Answers with its document and its keys, unless `otherwise` does.
    fn start(scratch: &Scratch, otherwise: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let keys = Arc::<Mutex<Vec<Value>>>::default();
        let known = Arc::clone(&keys);
        let service = WebhookService::start(scratch.path(), move |asked, _| {
            if let Some(reply) = otherwise(asked) {
                return reply;
            }
            let host = asked.head.iter().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let issuer = format!("https://{host}");
            let body = match asked.line.split(' ').nth(1) {
                Some("/.well-known/openid-configuration") => {
                    json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")})
                }
                Some("/keys") => json!({"keys": *known.lock().unwrap()}),
                _ => return Reply::Head(404, String::new()),
            };
            Reply::Body(200, "application/json", body.to_string())
        });
        Self { service, keys }
    }

    fn url(&self) -> String {
        format!("https://{}", self.service.address())
    }

    /// The entry of the configuration.
    fn entry(&self) -> Value {
        let authority = fs::read_to_string(self.service.file("ca.pem")).unwrap();
        json!({
            "issuer": {"url": self.url(), "certificateAuthority": authority, "audiences": ["app"]},
            "claimMappings": {"username": {"claim": "sub", "prefix": "i:"}},
        })
    }

    /// Begins to sign with a new key.
    fn rotate(&self) -> SigningKey {
        let key = new_key();
        *self.keys.lock().unwrap() = vec![serde_json::to_value(key.public().jwk()).unwrap()];
        key
    }

    fn fetches(&self, path: &str) -> usize {
        let line = format!("GET {path} ");
        self.service.asked().iter().filter(|asked| asked.line.starts_with(&line)).count()
    }

    fn token(&self, key: &SigningKey, name: &str) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        key.sign(&json!({"iss": self.url(), "aud": "app", "sub": name, "exp": now + 3600})).unwrap()
    }
}

fn new_key() -> SigningKey {
    SigningKey::new(&KeyPair::generate().unwrap()).unwrap()
}

fn configuration(entries: &[Value]) -> String {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": entries,
    })
    .to_string()
}

fn start(scratch: &Scratch, entries: &[Value]) -> (Running, PathBuf) {
    let file = scratch.write("authentication.json", configuration(entries));
    (Running::start(scratch, &["--authentication-config", text(&file)]), file)
}

/// Replaces a file at once, as editors and mounted volumes do.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}

/// Sends a SelfSubjectReview with this token; returns the status code and the user's name.
fn who(server: &Running, token: &str, more: &[&str]) -> (u16, String) {
    let header = format!("Authorization: Bearer {token}");
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let mut arguments = vec!["--header", &header, "--header", JSON, "--data", &body];
    arguments.extend(more);
    let (code, text) = server.ask("", SELF, &arguments);
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    (code, answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
}

fn until_known(server: &Running, token: &str) {
    wait::until("the issuer is ready", || who(server, token, &[]).0 == 201);
}

#[test]
fn a_new_key_is_accepted_at_once_and_the_old_one_no_longer() {
    let scratch = Scratch::new();
    let issuer = Issuer::start(&scratch, |_| None);
    let first = issuer.rotate();
    let (server, _) = start(&scratch, &[issuer.entry()]);
    let old = issuer.token(&first, "ana");
    until_known(&server, &old);
    let second = issuer.rotate();
    assert_eq!(who(&server, &issuer.token(&second, "ana"), &[]), (201, "i:ana".to_owned()));
    assert_eq!(who(&server, &old, &[]).0, 401);
    assert_eq!(issuer.fetches("/.well-known/openid-configuration"), 1);
}

#[test]
fn a_changed_file_takes_effect_and_a_bad_one_does_not() {
    let scratch = Scratch::new();
    let (one, other) = (Issuer::start(&scratch, |_| None), Issuer::start(&scratch, |_| None));
    let (of_one, of_other) = (one.rotate(), other.rotate());
    let (server, file) = start(&scratch, &[one.entry()]);
    let (token, further) = (one.token(&of_one, "ana"), other.token(&of_other, "bo"));
    until_known(&server, &token);
    assert_eq!(who(&server, &further, &[]).0, 401);

    let name = "apiserver_authentication_config_controller_automatic_reloads_total";
    let failures =
        || server.metric(&format!("{name}{{status=\"failure\"")).rsplit(' ').next().unwrap().to_owned();
    replace(&file, "kind: AuthenticationConfiguration");
    wait::until("the bad file is refused", || failures() == "1");
    let mut changed: Value = serde_json::from_str(&configuration(&[other.entry()])).unwrap();
    changed["anonymous"] = json!({"enabled": false});
    replace(&file, &changed.to_string());
    wait::until("a change of field anonymous is refused (AN-115)", || failures() == "2");
    assert_eq!(who(&server, &token, &[]).0, 201);
    assert_eq!(who(&server, &further, &[]).0, 401);

    replace(&file, &configuration(&[one.entry(), other.entry()]));
    until_known(&server, &further);
    assert_eq!(who(&server, &token, &[]).0, 201);
    assert_eq!(one.fetches("/.well-known/openid-configuration"), 1, "it keeps its keys");
    replace(&file, &configuration(&[other.entry()]));
    wait::until("the issuer is trusted no longer", || who(&server, &token, &[]).0 == 401);
    assert_eq!(who(&server, &further, &[]).0, 201);
    assert!(server.metric(&format!("{name}{{status=\"success\"")).ends_with(" 2"));
    let latency = "apiserver_authentication_jwt_authenticator_latency_seconds_count{result=\"success\"";
    assert!(!server.metric(latency).is_empty());
    let log = server.stop();
    assert!(log.contains("the authentication configuration cannot be used"), "{log}");
    assert!(!log.contains(&token) && !log.contains(&further), "no token in the log");
}

/// Whatever an issuer does, others wait for nothing.
#[test]
fn an_issuer_that_never_answers_delays_nobody_else() {
    let scratch = Scratch::new();
    let hangs = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&hangs);
    let slow = Issuer::start(&scratch, move |_| {
        while gate.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(20));
        }
        None
    });
    let (good, never) = (
        Issuer::start(&scratch, |_| None),
        Issuer::start(&scratch, |_| {
            thread::sleep(Duration::from_secs(3600));
            None
        }),
    );
    let (of_slow, of_good, of_never) = (slow.rotate(), good.rotate(), never.rotate());
    let (server, _) = start(&scratch, &[slow.entry(), never.entry(), good.entry()]);
    let (known, token) = (slow.token(&of_slow, "ana"), good.token(&of_good, "bo"));
    until_known(&server, &known);
    until_known(&server, &token);
    assert_eq!(who(&server, &never.token(&of_never, "eve"), &[]).0, 401);
    hangs.store(true, Ordering::SeqCst);
    thread::scope(|scope| {
        let (server, slow) = (&server, &slow);
        let before = slow.fetches("/keys");
        let waiting = scope.spawn(move || who(server, &slow.token(&new_key(), "mallory"), &[]).0);
        wait::until("the issuer is asked", || slow.fetches("/keys") > before);
        // The fetch is under way: none of these waits for it.
        assert_eq!(who(server, &known, &[]).0, 201);
        assert_eq!(who(server, &token, &[]).0, 201);
        assert_eq!(who(server, "alice-token", &[]).0, 201);
        hangs.store(false, Ordering::SeqCst);
        assert_eq!(waiting.join().unwrap(), 401);
    });
}

/// An attacker sends tokens with made-up keys: the issuer is asked once a second at most, and a new key is accepted meanwhile.
#[test]
fn made_up_tokens_cause_few_fetches_and_refuse_no_new_key() {
    const MADE_UP: usize = 40;
    let scratch = Scratch::new();
    let issuer = Issuer::start(&scratch, |_| None);
    let key = issuer.rotate();
    let (server, _) = start(&scratch, &[issuer.entry()]);
    until_known(&server, &issuer.token(&key, "ana"));
    let (began, before) = (Instant::now(), issuer.fetches("/keys"));
    thread::scope(|scope| {
        let (server, issuer) = (&server, &issuer);
        let made_up: Vec<_> = (0..MADE_UP)
            .map(|_| {
                scope.spawn(move || {
                    let token = issuer.token(&new_key(), "mallory");
                    who(server, &token, &["--interface", "127.0.0.2"]).0
                })
            })
            .collect();
        let new = issuer.rotate();
        assert_eq!(who(server, &issuer.token(&new, "ana"), &[]).0, 201);
        for code in made_up {
            assert_eq!(code.join().unwrap(), 401);
        }
    });
    let fetches = issuer.fetches("/keys") - before;
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!(fetches <= seconds + 2, "{fetches} fetches in {seconds} seconds");
    // Tokens that cannot be signed by any key of an issuer are not worth a fetch.
    let before = issuer.fetches("/keys");
    for head in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJIUzI1NiJ9", "e30"] {
        let token = issuer.token(&key, "mallory");
        let (_, rest) = token.split_once('.').unwrap();
        assert_eq!(who(&server, &format!("{head}.{rest}"), &[]).0, 401, "{head}");
    }
    assert_eq!(issuer.fetches("/keys"), before);
}

#[test]
fn documents_that_are_too_large_change_nothing() {
    let scratch = Scratch::new();
    let mode = Arc::new(Mutex::new(""));
    let current = Arc::clone(&mode);
    let issuer = Issuer::start(&scratch, move |asked| {
        let body = match (*current.lock().unwrap(), asked.line.contains("/keys ")) {
            ("large", true) => format!(r#"{{"keys":[{{"kty":"{}"}}]}}"#, "x".repeat(2 << 20)),
            ("many", true) => json!({"keys": vec![json!({}); 1000]}).to_string(),
            ("deep", true) => "[".repeat(100_000),
            ("elsewhere", true) => {
                return Some(Reply::Head(302, "Location: https://127.0.0.2:1/keys\r\n".to_owned()));
            }
            _ => return None,
        };
        Some(Reply::Body(200, "application/json", body))
    });
    let huge = Issuer::start(&scratch, |_| Some(Reply::Body(200, "application/json", " ".repeat(4 << 20))));
    let (key, of_huge) = (issuer.rotate(), huge.rotate());
    let (server, _) = start(&scratch, &[issuer.entry(), huge.entry()]);
    let token = issuer.token(&key, "ana");
    until_known(&server, &token);
    wait::until("the huge document is asked for", || huge.fetches("/.well-known/openid-configuration") > 0);
    assert_eq!(who(&server, &huge.token(&of_huge, "eve"), &[]).0, 401);
    for how in ["large", "many", "deep", "elsewhere"] {
        *mode.lock().unwrap() = how;
        let before = issuer.fetches("/keys");
        assert_eq!(who(&server, &issuer.token(&new_key(), "mallory"), &[]).0, 401, "{how}");
        assert!(issuer.fetches("/keys") > before, "{how}");
        assert_eq!(who(&server, &token, &[]).0, 201, "{how}: the known keys stay");
    }
}

#[test]
fn a_file_that_is_invalid_stops_the_start() {
    let scratch = Scratch::new();
    const FLAG: &str = "--authentication-config";
    let error = refused(&scratch, &[FLAG, "/nowhere/authentication.yaml"]);
    assert!(error.contains(FLAG) && error.contains("/nowhere/authentication.yaml"), "{error}");
    let entry = json!({
        "issuer": {"url": "https://a.example", "audiences": ["app"], "egressSelectorType": "cluster"},
        "claimMappings": {"username": {"expression": "claims.email"}},
    });
    let file = scratch.write("authentication.json", configuration(&[entry]));
    let error = refused(&scratch, &[FLAG, text(&file)]);
    for part in ["jwt[0].issuer.egressSelectorType", "claims.email_verified must be used"] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    let error = refused(&scratch, &["--oidc-issuer-url=https://a.example"]);
    assert!(error.contains(FLAG), "{error}");
}
