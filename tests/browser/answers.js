// Counts the questions put to the server's queue that have no answer yet, for `window.unanswered()`.
//
// The stream of answers alone does not tell: Gradio's client opens another when an answer comes before the receipt of
// its question, and nothing is left to end that one before the next question.
(() => {
  const plainFetch = window.fetch;
  const asked = new Set();
  const answered = new Set();
  let joining = 0;

  window.unanswered = () => joining + [...asked].filter((id) => !answered.has(id)).length;

  async function readAnswers(stream) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const event of events) {
          const head = event.slice(0, 300);
          if (head.includes('"process_completed"')) answered.add(head.match(/"event_id":\s*"([^"]+)"/)?.[1]);
          if (head.includes('"unexpected_error"')) asked.clear();
        }
      }
    } catch {
      // Gradio's client ends the stream itself.
    }
  }

  window.fetch = async (...request) => {
    const url = String(request[0]?.url ?? request[0]);
    if (!url.includes("/queue/join")) {
      const response = await plainFetch(...request);
      if (url.includes("/queue/data")) readAnswers(response.clone().body);
      return response;
    }
    joining += 1;
    try {
      const response = await plainFetch(...request);
      if (response.ok) asked.add((await response.clone().json()).event_id);
      return response;
    } finally {
      joining -= 1;
    }
  };
})();
