//! A browser without a window, and what somebody does in it.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::wire::ask;

/// Longer than anything takes that is waited for; it ends a test that hangs.
const PATIENCE_MILLISECONDS: u64 = 300_000;
/// The name under which the protocol gives elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// So often is something pressed that moves meanwhile.
const PRESSES_MAX: usize = 10;
/// What the driver says of an element that is not where it was.
const MOVED: [&str; 2] = ["stale element reference", "element click intercepted"];

/// The keys that are pressed, as the protocol writes them.
pub mod key {
    pub const TAB: char = '\u{e004}';
    pub const ENTER: char = '\u{e007}';
    pub const ESCAPE: char = '\u{e00c}';
    pub const DOWN: char = '\u{e015}';
    pub const END: char = '\u{e010}';
    pub const HOME: char = '\u{e011}';
}

fn found(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = env::split_paths(&path).flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    all.find(|path| path.is_file())
}

fn programs() -> (Option<PathBuf>, Option<PathBuf>) {
    (found(&["chromium", "chromium-browser", "google-chrome"]), found(&["chromedriver"]))
}

/// What is missing to run a browser; nothing where all is there.
pub fn missing() -> Option<String> {
    let (browser, driver) = programs();
    let missing: Vec<&str> = [("chromium", browser), ("chromedriver", driver)]
        .into_iter()
        .filter_map(|(name, path)| path.is_none().then_some(name))
        .collect();
    (!missing.is_empty()).then(|| {
        let missing = missing.join(" and ");
        format!("There is no {missing} here; Debian has them as the packages chromium and chromium-driver.")
    })
}

/// Begins a driver; nothing where it ends before it says on which port it is.
fn begin_driver(program: &Path, home: &Path) -> Option<(Child, String)> {
    let mut driver = Command::new(program)
        .args(["--port=0", "--log-level=SEVERE"])
        .env("HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
    let Some(line) = lines.find(|line| line.contains("started successfully on port")) else {
        driver.wait().unwrap();
        return None;
    };
    // Nobody reads what it says later, and it must not wait for that.
    std::thread::spawn(move || lines.for_each(drop));
    Some((driver, line.rsplit(' ').next().unwrap().trim_end_matches('.').to_owned()))
}

/// A browser with nothing in it: no cookies, no cache.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
    /// All requests lead there.
    own: String,
    /// What was asked for so far.
    requested: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// For a service at an address.
    pub fn new(own: &str) -> Self {
        let (Some(program), Some(driver)) = programs() else { panic!("{}", missing().unwrap()) };
        let profile = TempDir::with_prefix("tidegate-web-").unwrap();
        // The port that it chooses may be taken before it has it; then it ends.
        let begin = || begin_driver(&driver, profile.path());
        let (driver, port) =
            std::iter::repeat_with(begin).take(5).flatten().next().expect("no driver starts");
        let address = format!("127.0.0.1:{port}");
        let data = profile.path().join("data");
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--force-color-profile=srgb",
            "--window-size=1280,900",
            "--lang=en-GB",
            &format!("--user-data-dir={}", data.display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": program, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": PATIENCE_MILLISECONDS, "pageLoad": PATIENCE_MILLISECONDS},
        }}});
        let answer = ask(&address, "POST", "/session", &[], Some(&wanted));
        assert_eq!(answer.status, 200, "{}", answer.body);
        let told: Value = serde_json::from_str(&answer.body).unwrap();
        let session = told["value"]["sessionId"].as_str().unwrap().to_owned();
        Self { driver, address, session, own: own.to_owned(), requested: Vec::new(), _profile: profile }
    }

    #[track_caller]
    fn command(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        match self.tried(method, path, body) {
            Ok(told) => told,
            Err(told) => panic!("{path}: {}", told["message"]),
        }
    }

    /// What the driver tells, or why it cannot do it.
    fn tried(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Value> {
        let target = format!("/session/{}{path}", self.session);
        let answer = ask(&self.address, method, &target, &[], body.as_ref());
        let mut told: Value = serde_json::from_str(&answer.body).unwrap();
        if answer.status == 200 { Ok(told["value"].take()) } else { Err(told["value"].take()) }
    }

    #[track_caller]
    fn post(&self, path: &str, body: Value) -> Value {
        self.command("POST", path, Some(body))
    }

    /// Goes to a view, or to a whole address.
    #[track_caller]
    pub fn open(&self, path: &str) {
        let url = if path.contains("://") { path.to_owned() } else { format!("{}{path}", self.own) };
        self.post("/url", json!({"url": url}));
    }

    /// What a script returns; it is the body of a function.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": []}))
    }

    /// What a script gives to `done`.
    #[track_caller]
    pub fn run_async(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        self.post("/execute/async", json!({"script": script, "args": []}))
    }

    /// Waits until an expression is true, and returns what it is.
    #[track_caller]
    pub fn until(&self, expression: &str) -> Value {
        let limit = PATIENCE_MILLISECONDS - 20_000;
        let script = format!(
            "const done = arguments[arguments.length - 1];
             const end = performance.now() + {limit};
             const look = () => {{
               let found = null;
               try {{ found = ({expression}); }} catch (error) {{ found = null; }}
               if (found) done({{found}});
               else if (performance.now() > end) done({{text: document.body.innerText}});
               else setTimeout(look, 20);
             }};
             look();"
        );
        let told = self.post("/execute/async", json!({"script": script, "args": []}));
        assert!(
            told.get("found").is_some(),
            "never: {expression}\nThe page says:\n{}",
            told["text"].as_str().unwrap()
        );
        told["found"].clone()
    }

    /// Waits until the main part of the page has a text.
    #[track_caller]
    pub fn await_text(&self, text: &str) {
        let text = json!(text);
        self.until(&format!("document.getElementById('main').textContent.includes({text})"));
    }

    /// What the main part of the page says.
    #[track_caller]
    pub fn text(&self) -> String {
        self.run("return document.getElementById('main').innerText").as_str().unwrap().to_owned()
    }

    /// The element of a selector, as soon as it is there.
    #[track_caller]
    fn element(&self, selector: &str) -> String {
        self.until(&format!("document.querySelector({})", json!(selector)));
        let found = self.post("/element", json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// Presses something with the mouse. Where the view has changed between the look at it and the press, so that it was missed,
    /// it is pressed once more, as people do.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let name = json!(selector);
        for _ in 0..PRESSES_MAX {
            let element = self.element(selector);
            self.run(&format!(
                "window.isMissed = true;
                 const hear = (event) => {{ window.isMissed = !event.target.closest({name}); }};
                 window.addEventListener('click', hear, {{capture: true, once: true}});"
            ));
            let pressed = self.tried("POST", &format!("/element/{element}/click"), Some(json!({})));
            match pressed {
                // Another page, which the press has led to, knows nothing of it.
                Ok(_) if self.run("return window.isMissed !== true") == true => return,
                Ok(_) => {}
                Err(told) if MOVED.contains(&told["error"].as_str().unwrap()) => {}
                Err(told) => panic!("{selector} cannot be pressed: {}", told["message"]),
            }
        }
        panic!("{selector} was missed {PRESSES_MAX} times");
    }

    /// Presses the button that is called so.
    #[track_caller]
    pub fn press(&self, name: &str) {
        self.click(&format!("[data-do={}]", json!(name)));
    }

    /// Writes into a field.
    #[track_caller]
    pub fn write(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(&format!("/element/{element}/clear"), json!({}));
        self.post(&format!("/element/{element}/value"), json!({"text": text}));
    }

    /// Takes a choice of a list.
    #[track_caller]
    pub fn choose(&self, selector: &str, value: &str) {
        let element = self.element(&format!("{selector} option[value={}]", json!(value)));
        self.post(&format!("/element/{element}/click"), json!({}));
    }

    /// Presses a key, wherever the focus is.
    #[track_caller]
    pub fn key(&self, key: char) {
        let actions = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.post("/actions", json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
    }

    /// What the driver passes on to the browser.
    #[track_caller]
    pub fn tell(&self, command: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", json!({"cmd": command, "params": parameters}))
    }

    /// As on a screen of this size.
    pub fn size(&self, width: u32, height: u32) {
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}),
        );
    }

    /// As the system of the reader asks for it.
    pub fn scheme(&self, scheme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.tell("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// A picture of what can be seen, where somebody wants one: a file of the folder that `TIDEGATE_SCREENSHOTS` names.
    pub fn picture(&self, name: &str) {
        let Some(folder) = env::var_os("TIDEGATE_SCREENSHOTS") else { return };
        let told = self.tell("Page.captureScreenshot", json!({"format": "png"}));
        let bytes = decoded(told["data"].as_str().unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    /// What is in the file that a button saves.
    #[track_caller]
    pub fn saved(&self, button: &str) -> String {
        self.run(
            "window.saved = null;
             const make = URL.createObjectURL;
             URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return make.call(URL, blob); };
             HTMLAnchorElement.prototype.click = () => {};",
        );
        self.press(button);
        self.until("window.saved").as_str().unwrap().to_owned()
    }

    /// What the console holds against the page since this was asked last. Nothing is expected there.
    #[track_caller]
    pub fn complaints(&self) -> Vec<String> {
        let told = self.post("/se/log", json!({"type": "browser"}));
        let entries = told.as_array().unwrap().iter();
        let bad = entries.filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        bad.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The addresses that were asked for so far.
    #[track_caller]
    pub fn requested(&mut self) -> &[String] {
        let told = self.post("/se/log", json!({"type": "performance"}));
        for entry in told.as_array().unwrap() {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let message = &message["message"];
            let params = &message["params"];
            // A browser begins with a page of its own.
            let is_ours = params["documentURL"].as_str().is_some_and(|url| url.starts_with(&self.own));
            if message["method"] == "Network.requestWillBeSent" && is_ours {
                self.requested.push(params["request"]["url"].as_str().unwrap().to_owned());
            }
        }
        &self.requested
    }

    /// The console is empty, and nothing was asked of anybody else.
    #[track_caller]
    pub fn is_clean(&mut self) {
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "{complaints:#?}");
        let own = format!("{}/", self.own);
        let requested = self.requested();
        assert!(requested.iter().any(|url| url.starts_with(&own)), "{requested:?}");
        let elsewhere: Vec<&String> =
            requested.iter().filter(|url| !url.starts_with(&own) && !url.starts_with("data:")).collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session; the driver knows it, and we do not.
        if !std::thread::panicking() {
            self.command("DELETE", "", None);
        } else {
            let target = format!("/session/{}", self.session);
            let _ = std::panic::catch_unwind(|| ask(&self.address, "DELETE", &target, &[], None));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Bytes from their text in base64.
fn decoded(text: &str) -> Vec<u8> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = LETTERS.iter().position(|one| *one == letter).unwrap();
        held = (held << 6) | u32::try_from(value).unwrap();
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from((held >> bits) & 0xff).unwrap());
        }
    }
    bytes
}
