//! Access to the page, and the restrictions of each role.

use serde_json::json;

use crate::bench::Bench;
use crate::browser::Browser;
use crate::http;
use crate::provider::{Provider, ProviderBehavior};
use crate::service::{ExampleOptions, OPERATOR, READER, Service, example_folder};

const WITHOUT_APPSET: ExampleOptions = ExampleOptions { rollout: None, has_no_appset: true, is_gated: false };

/// Counts the action buttons.
const COUNT_BUTTONS: &str = "return document.querySelectorAll('main .actions button').length";

pub fn the_printed_address_signs_in_and_other_browsers_need_a_token() {
    let bench: Bench = example_folder(&WITHOUT_APPSET);
    let mut service = bench.start(&["serve", "--sim", "--apps", "fleet"]);
    let line = service.wait_for_line("the web page is at");
    let address = line.split_once("http://").unwrap().1.split(' ').next().unwrap().to_owned();
    let (own, token) = address.split_once("/#token=").unwrap();
    service.wait_for_line("managing 3 applications");
    let url = format!("http://{own}");
    let mut browser = Browser::new(&url);
    browser.open(&format!("http://{address}"));
    browser.wait_for_text("3 Applications");
    // The token is removed from the address, and scripts cannot read the cookie.
    assert_eq!(browser.run("return location.href"), json!(format!("{url}/")));
    assert_eq!(browser.run("return document.cookie"), json!(""));
    browser.open("/applications/argocd/backend");
    browser.wait_until("document.querySelector('[data-do=\"Sync…\"]')");
    browser.assert_clean();
    // Without that address, neither the page nor the API grants access.
    let mut other = Browser::new(&url);
    other.open("/applications/argocd/backend");
    other.wait_until("document.querySelector('h1')?.textContent === 'Sign in'");
    assert!(!other.text().contains("backend"));
    let answer = http::send_request(own, "GET", "/api/v1/applications", &[], None);
    assert_eq!(answer.status, 401, "{}", answer.body);
    other.assert_clean();
    // The address also works in an open page.
    other.run(&format!("location.hash = 'token={token}'"));
    other.wait_until("document.querySelector('[data-do=\"Sync…\"]')");
    assert_eq!(other.run("return location.hash"), json!(""));
    // The output of the process does not contain the token.
    let ops = bench.run(&["ops", "list", "-o", "json"]).expect_code(0);
    assert!(!ops.out.contains(token) && !ops.err.contains(token));
    service.signal("TERM");
    service.finish().expect_code(0);
}

pub fn a_token_signs_in_and_its_revocation_ends_the_session() {
    let service = Service::new(&WITHOUT_APPSET);
    let browser = Browser::new(&service.url);
    browser.open("/applications/argocd/backend");
    browser.type_text("#token", "nobody-has-this-token-here");
    browser.press_key(crate::browser::key::ENTER);
    browser.wait_until("document.getElementById('token-problem').textContent.includes('invalid token')");
    browser.type_text("#token", OPERATOR);
    browser.press_key(crate::browser::key::ENTER);
    // The originally requested page opens.
    browser.wait_until("document.querySelector('h1')?.textContent === 'backend'");
    browser.wait_until("document.getElementById('who').textContent.includes('ann')");
    // The session survives a reload, and ends when the token is removed.
    browser.open("/");
    browser.wait_for_text("3 Applications");
    service.bench.write_private("tokens", format!("ben read-only {READER}\n"));
    browser.wait_until("document.querySelector('h1')?.textContent === 'Sign in' || (dispatchEvent(new PopStateEvent('popstate')), false)");
    let text = "document.getElementById('token-problem').textContent";
    browser.wait_until(&format!("{text} === 'You are signed out; sign in again.'"));
    browser.type_text("#token", READER);
    browser.press_key(crate::browser::key::ENTER);
    browser.wait_for_text("3 Applications");
    browser.click("#who button");
    browser.wait_until("document.querySelector('h1')?.textContent === 'Sign in'");
    browser.open("/operations");
    browser.wait_until("document.querySelector('h1')?.textContent === 'Sign in'");
    service.stop();
}

/// For the browser, the provider is on a different site than the service, because it uses another name of
/// this machine.
pub fn a_user_signs_in_with_a_provider_and_out_again() {
    let manners = ProviderBehavior { shows_page: true, secret: None, ..ProviderBehavior::default() };
    let provider = Provider::at("localhost", manners);
    let bench = example_folder(&WITHOUT_APPSET);
    bench.write_private("oidc.yaml", provider.settings("name: a small provider\n"));
    let service =
        Service::with_options(bench, &["--listen", "0", "--tokens", "tokens", "--oidc", "oidc.yaml"]);
    let mut browser = Browser::new(&service.url);
    let heading = |text: &str| format!("document.querySelector('h1')?.textContent === {}", json!(text));
    let sign_in = |browser: &Browser| {
        browser.wait_until(
            "document.querySelector('a.button')?.textContent === 'Sign in with a small provider'",
        );
        browser.click("a.button");
        browser.wait_until(&heading("Who are you?"));
        browser.click("#agree");
    };
    browser.open("/applications/argocd/backend?from=elsewhere");
    browser.wait_until(&heading("Sign in"));
    browser.wait_until("document.getElementById('token')");
    sign_in(&browser);
    // The originally requested page opens with the user's permissions.
    browser.wait_until(&heading("backend"));
    browser.wait_until("document.getElementById('who').textContent.includes('oidc:ann (operator)')");
    browser.wait_until("document.querySelector('[data-do=\"Sync…\"]')");
    let address = format!("{}/applications/argocd/backend?from=elsewhere", service.url);
    assert_eq!(browser.run("return [location.href, document.cookie]"), json!([address, ""]));
    browser.open("/");
    browser.wait_for_text("3 Applications");
    browser.assert_clean();
    // Actions are recorded under the user's name.
    service.wait_until_synced(&[]);
    let response = browser.run_async(
        "(async () => { const session = await (await fetch('/api/v1/session')).json();
         const headers = {'content-type': 'application/json', 'x-tidegate-csrf': session.csrf};
         done((await fetch('/api/v1/applications/argocd/backend/sync', {method: 'POST', headers, body: '{}'})).status); })().catch((error) => done(String(error)))",
    );
    assert_eq!(response, json!(202));
    service.wait_until("/api/v1/operations?application=backend&initiatedBy=oidc%3Aann", |found| {
        found["total"] == json!(1)
    });
    browser.click("#who button");
    browser.wait_until(&heading("Sign in"));
    browser.open("/operations");
    browser.wait_until(&heading("Sign in"));
    // A user whose groups have no role gets an error, and isn't signed in.
    provider
        .change(|manners| manners.person = json!({"preferred_username": "eve", "groups": ["<b>guests</b>"]}));
    sign_in(&browser);
    browser.wait_until(&heading("You are not signed in"));
    browser.wait_for_text(
        "a small provider authenticated you as eve, but neither you nor any of your groups has a role in this service",
    );
    browser.wait_for_text("<b>guests</b>");
    browser.click("main a");
    browser.wait_until(&heading("Sign in"));
    service.stop();
}

pub fn a_read_only_user_has_no_buttons() {
    let service = Service::new(&WITHOUT_APPSET);
    service.wait_until_synced(&[]);
    let mut browser = service.browser(READER);
    browser.wait_until("document.getElementById('who').textContent.includes('read-only')");
    browser.open("/applications/argocd/backend");
    browser.wait_for_text("Order of the next sync");
    browser.wait_for_text("Deployment fleet/backend");
    assert_eq!(browser.run(COUNT_BUTTONS), json!(0));
    // The API also rejects actions that the page doesn't offer.
    let response = browser.run_async(
        "(async () => { const session = await (await fetch('/api/v1/session')).json();
         const headers = {'content-type': 'application/json', 'x-tidegate-csrf': session.csrf};
         done((await fetch('/api/v1/applications/argocd/backend/sync', {method: 'POST', headers, body: '{}'})).status); })().catch((error) => done(String(error)))",
    );
    assert_eq!(response, json!(403));
    browser.take_console_messages();
    browser.open("/");
    browser.wait_for_text("3 Applications");
    browser.assert_clean();
    service.stop();
}

pub fn without_tokens_local_users_are_read_only() {
    let service = Service::with_options(example_folder(&WITHOUT_APPSET), &["--listen", "0"]);
    let mut browser = Browser::new(&service.url);
    browser.open("/");
    browser.wait_for_text("3 Applications");
    browser.wait_until("document.getElementById('who').textContent.includes('read-only')");
    browser.open("/applications/argocd/backend");
    browser.wait_for_text("Order of the next sync");
    assert_eq!(browser.run(COUNT_BUTTONS), json!(0));
    browser.assert_clean();
    service.stop();
}

pub fn failed_requests_and_expired_sessions_are_reported_readably() {
    let service = Service::new(&WITHOUT_APPSET);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/backend");
    // Fakes the browser's response for paths with this suffix.
    let gets = |path: &str, answer: &str| {
        browser.run(&format!(
            "window.asked ??= window.fetch;
             window.fetch = (path, options) => (path.endsWith('{path}') ? {answer} : window.asked(path, options))"
        ));
    };
    // A connection can break before or after the request takes effect.
    gets("/refresh", "Promise.reject(new TypeError('Failed to fetch'))");
    browser.press_button("Refresh…");
    browser.press_button("confirm");
    let problem = "document.querySelector('dialog p.problem:not([hidden])')?.textContent";
    browser.wait_until(&format!("{problem} === 'the service does not respond: the request may have arrived; check the current state before you retry'"));
    browser.press_button("leave");
    browser.wait_until("!document.querySelector('dialog')");
    // The session ends while a dialog is open.
    let body = json!({"code": "unauthorized", "message": "authentication required", "hint": "send a header"});
    gets("/refresh", &format!("Promise.resolve(new Response(JSON.stringify({body}), {{status: 401}}))"));
    browser.press_button("Refresh…");
    browser.press_button("confirm");
    let asked = "document.querySelector('h1')?.textContent === 'Sign in' && document.getElementById('token-problem').textContent === 'You are signed out; sign in again.'";
    browser.wait_until(&format!(
        "{asked} && !document.querySelector('dialog') && document.activeElement.id === 'token'"
    ));
    assert!(!browser.text().contains("send a header"));
    browser.type_text("#token", OPERATOR);
    browser.press_key(crate::browser::key::ENTER);
    browser.wait_until("document.querySelector('h1')?.textContent === 'backend'");
    // The page reports that the limit of subscribers is reached. An expired session leads to the login
    // without other messages.
    browser.run(
        "window.EventSource = class extends EventTarget {
           static CLOSED = 2;
           readyState = 2;
           constructor() { super(); setTimeout(() => this.dispatchEvent(new Event('error')), 50); }
           close() {}
         }",
    );
    browser.click("nav a[href='/operations']");
    let notice = "document.getElementById('notice')";
    browser.wait_until(&format!("{notice}.textContent.startsWith('Live updates are unavailable')"));
    let nobody = json!({"name": "", "role": null, "acceptsTokens": true, "provider": null, "csrf": null});
    gets("/api/v1/session", &format!("Promise.resolve(new Response(JSON.stringify({nobody})))"));
    browser.wait_until(&format!("{asked} && {notice}.hidden"));
    browser.assert_clean();
    service.stop();
}

pub fn an_unknown_address_is_reported_with_a_way_back() {
    let service = Service::new(&WITHOUT_APPSET);
    let browser = service.browser(READER);
    browser.open("/nowhere");
    browser.wait_until("document.querySelector('h1')?.textContent === 'Page not found'");
    browser.click("section.panel a");
    browser.wait_until("document.querySelector('h1')?.textContent === 'Applications'");
    // API clients get errors as JSON.
    for (target, headers) in [("/nowhere", &["accept: */*"][..]), ("/api/v1/nowhere", &["accept: text/html"])]
    {
        let answer = service.request("GET", target, headers, None);
        assert_eq!(answer.status, 404, "{target}");
        assert!(answer.body.contains("\"not-found\""), "{target}: {}", answer.body);
    }
    service.stop();
}
