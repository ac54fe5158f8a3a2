//! A headless browser, and user actions in it.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::send_request;

/// Longer than any wait, so that it only stops a test that hangs.
const TIMEOUT_MILLISECONDS: u64 = 300_000;
/// JSON key of elements in the WebDriver protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Maximum number of clicks on a moving element.
const MAX_CLICKS: usize = 10;
/// Errors of the driver for an element that has moved.
const MOVED_ERRORS: [&str; 2] = ["stale element reference", "element click intercepted"];

/// Keys in the encoding of the protocol.
pub mod key {
    pub const TAB: char = '\u{e004}';
    pub const ENTER: char = '\u{e007}';
    pub const ESCAPE: char = '\u{e00c}';
    pub const DOWN: char = '\u{e015}';
    pub const END: char = '\u{e010}';
    pub const HOME: char = '\u{e011}';
}

fn find_program(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = env::split_paths(&path).flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    all.find(|path| path.is_file())
}

fn find_programs() -> (Option<PathBuf>, Option<PathBuf>) {
    (find_program(&["chromium", "chromium-browser", "google-chrome"]), find_program(&["chromedriver"]))
}

/// Returns the missing requirement for a browser, if any.
pub fn missing_requirement() -> Option<String> {
    let (browser, driver) = find_programs();
    let missing: Vec<&str> = [("chromium", browser), ("chromedriver", driver)]
        .into_iter()
        .filter_map(|(name, path)| path.is_none().then_some(name))
        .collect();
    (!missing.is_empty()).then(|| {
        let missing = missing.join(" and ");
        format!("missing: {missing}; install the Debian packages chromium and chromium-driver.")
    })
}

/// Starts a driver. Returns `None` if the driver exits before it reports its port.
fn start_driver(program: &Path, home: &Path) -> Option<(Child, String)> {
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
    // Drains later output, so that the driver doesn't block.
    std::thread::spawn(move || lines.for_each(drop));
    Some((driver, line.rsplit(' ').next().unwrap().trim_end_matches('.').to_owned()))
}

/// A browser with an empty profile, that is, without cookies and cache.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
    /// Address of the service, to which all requests must go.
    service_address: String,
    /// Addresses that have been requested so far.
    requested: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser for a service at an address.
    pub fn new(own: &str) -> Self {
        let (Some(program), Some(driver)) = find_programs() else {
            panic!("{}", missing_requirement().unwrap())
        };
        let profile = TempDir::with_prefix("tidegate-web-").unwrap();
        // The port that the driver chooses may be in use. The driver then exits.
        let begin = || start_driver(&driver, profile.path());
        let (driver, port) =
            std::iter::repeat_with(begin).take(5).flatten().next().expect("the driver does not start");
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
            "timeouts": {"script": TIMEOUT_MILLISECONDS, "pageLoad": TIMEOUT_MILLISECONDS},
        }}});
        let answer = send_request(&address, "POST", "/session", &[], Some(&wanted));
        assert_eq!(answer.status, 200, "{}", answer.body);
        let response: Value = serde_json::from_str(&answer.body).unwrap();
        let session = response["value"]["sessionId"].as_str().unwrap().to_owned();
        Self {
            driver,
            address,
            session,
            service_address: own.to_owned(),
            requested: Vec::new(),
            _profile: profile,
        }
    }

    #[track_caller]
    fn command(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        match self.try_command(method, path, body) {
            Ok(told) => told,
            Err(told) => panic!("{path}: {}", told["message"]),
        }
    }

    /// Returns the result of the driver, or its error.
    fn try_command(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Value> {
        let target = format!("/session/{}{path}", self.session);
        let answer = send_request(&self.address, method, &target, &[], body.as_ref());
        let mut response: Value = serde_json::from_str(&answer.body).unwrap();
        if answer.status == 200 { Ok(response["value"].take()) } else { Err(response["value"].take()) }
    }

    #[track_caller]
    fn post(&self, path: &str, body: Value) -> Value {
        self.command("POST", path, Some(body))
    }

    /// Opens a view, or a complete address.
    #[track_caller]
    pub fn open(&self, path: &str) {
        let url =
            if path.contains("://") { path.to_owned() } else { format!("{}{path}", self.service_address) };
        self.post("/url", json!({"url": url}));
    }

    /// Runs a script, which is the body of a function, and returns its result.
    #[track_caller]
    pub fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({"script": script, "args": []}))
    }

    /// Runs a script and returns the value that it passes to `done`.
    #[track_caller]
    pub fn run_async(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        self.post("/execute/async", json!({"script": script, "args": []}))
    }

    /// Waits until an expression is true, and returns its value.
    #[track_caller]
    pub fn wait_until(&self, expression: &str) -> Value {
        let limit = TIMEOUT_MILLISECONDS - 20_000;
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
        let response = self.post("/execute/async", json!({"script": script, "args": []}));
        assert!(
            response.get("found").is_some(),
            "never: {expression}\nThe page says:\n{}",
            response["text"].as_str().unwrap()
        );
        response["found"].clone()
    }

    /// Waits until the main part of the page contains a text.
    #[track_caller]
    pub fn wait_for_text(&self, text: &str) {
        let text = json!(text);
        self.wait_until(&format!("document.getElementById('main').textContent.includes({text})"));
    }

    /// Returns the text of the main part of the page.
    #[track_caller]
    pub fn text(&self) -> String {
        self.run("return document.getElementById('main').innerText").as_str().unwrap().to_owned()
    }

    /// Waits for an element that matches a selector.
    #[track_caller]
    fn wait_for_element(&self, selector: &str) -> String {
        self.wait_until(&format!("document.querySelector({})", json!(selector)));
        let found = self.post("/element", json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// Clicks an element. If the view has changed and the click missed the element, clicks again, as a person
    /// would.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let name = json!(selector);
        for _ in 0..MAX_CLICKS {
            let element = self.wait_for_element(selector);
            self.run(&format!(
                "window.isMissed = true;
                 const hear = (event) => {{ window.isMissed = !event.target.closest({name}); }};
                 window.addEventListener('click', hear, {{capture: true, once: true}});"
            ));
            let pressed = self.try_command("POST", &format!("/element/{element}/click"), Some(json!({})));
            match pressed {
                // The click has led to another page, which doesn't have the mark.
                Ok(_) if self.run("return window.isMissed !== true") == true => return,
                Ok(_) => {}
                Err(told) if MOVED_ERRORS.contains(&told["error"].as_str().unwrap()) => {}
                Err(told) => panic!("{selector} cannot be pressed: {}", told["message"]),
            }
        }
        panic!("{selector} was not clicked in {MAX_CLICKS} attempts");
    }

    /// Clicks the button with this name.
    #[track_caller]
    pub fn press_button(&self, name: &str) {
        self.click(&format!("[data-do={}]", json!(name)));
    }

    /// Types into a field.
    #[track_caller]
    pub fn type_text(&self, selector: &str, text: &str) {
        let element = self.wait_for_element(selector);
        self.post(&format!("/element/{element}/clear"), json!({}));
        self.post(&format!("/element/{element}/value"), json!({"text": text}));
    }

    /// Selects an option in a list.
    #[track_caller]
    pub fn select_option(&self, selector: &str, value: &str) {
        let element = self.wait_for_element(&format!("{selector} option[value={}]", json!(value)));
        self.post(&format!("/element/{element}/click"), json!({}));
    }

    /// Presses a key in the element that has the focus.
    #[track_caller]
    pub fn press_key(&self, key: char) {
        let actions = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.post("/actions", json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
    }

    /// Sends a command to the browser through the driver.
    #[track_caller]
    pub fn send_command(&self, command: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", json!({"cmd": command, "params": parameters}))
    }

    /// Emulates a screen of this size.
    pub fn set_size(&self, width: u32, height: u32) {
        self.send_command(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}),
        );
    }

    /// Emulates a color scheme.
    pub fn set_color_scheme(&self, scheme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.send_command("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Saves a screenshot to the folder `TIDEGATE_SCREENSHOTS`, if set.
    pub fn save_screenshot(&self, name: &str) {
        let Some(folder) = env::var_os("TIDEGATE_SCREENSHOTS") else { return };
        let screenshot = self.send_command("Page.captureScreenshot", json!({"format": "png"}));
        let bytes = decode_base64(screenshot["data"].as_str().unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    /// Returns the file that a button saves.
    #[track_caller]
    pub fn read_download(&self, button: &str) -> String {
        self.run(
            "window.saved = null;
             const make = URL.createObjectURL;
             URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return make.call(URL, blob); };
             HTMLAnchorElement.prototype.click = () => {};",
        );
        self.press_button(button);
        self.wait_until("window.saved").as_str().unwrap().to_owned()
    }

    /// Returns the console messages since the last call. None are expected.
    #[track_caller]
    pub fn take_console_messages(&self) -> Vec<String> {
        let response = self.post("/se/log", json!({"type": "browser"}));
        let entries = response.as_array().unwrap().iter();
        let bad = entries.filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        bad.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the addresses that have been requested so far.
    #[track_caller]
    pub fn requested(&mut self) -> &[String] {
        let response = self.post("/se/log", json!({"type": "performance"}));
        for entry in response.as_array().unwrap() {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let message = &message["message"];
            let params = &message["params"];
            // A browser starts with a built-in page.
            let is_ours =
                params["documentURL"].as_str().is_some_and(|url| url.starts_with(&self.service_address));
            if message["method"] == "Network.requestWillBeSent" && is_ours {
                self.requested.push(params["request"]["url"].as_str().unwrap().to_owned());
            }
        }
        &self.requested
    }

    /// Checks that the console is empty, and that the page sent requests only to the service.
    #[track_caller]
    pub fn assert_clean(&mut self) {
        let complaints = self.take_console_messages();
        assert!(complaints.is_empty(), "{complaints:#?}");
        let own = format!("{}/", self.service_address);
        let requested = self.requested();
        assert!(requested.iter().any(|url| url.starts_with(&own)), "{requested:?}");
        let elsewhere: Vec<&String> =
            requested.iter().filter(|url| !url.starts_with(&own) && !url.starts_with("data:")).collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser exits when its session ends, and only the driver can end the session.
        if !std::thread::panicking() {
            self.command("DELETE", "", None);
        } else {
            let target = format!("/session/{}", self.session);
            let _ = std::panic::catch_unwind(|| send_request(&self.address, "DELETE", &target, &[], None));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Decodes base64.
fn decode_base64(text: &str) -> Vec<u8> {
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
