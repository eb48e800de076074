/* Search without a server. A page opened from a disk (file://) may start no Worker, so here one is replaced by a hidden
   frame that runs the same script: messages to it are events of the frame, what it posts are events of this object. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.appendChild(frame)
      this.scope = frame.contentWindow
      this.scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = frame.contentDocument.createElement("script")
      script.src = url
      script.onload = () => {
        const waiting = this.waiting
        this.waiting = null
        waiting.forEach(data => this.postMessage(data))
      }
      frame.contentDocument.body.appendChild(script)
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.scope.dispatchEvent(new MessageEvent("message", { data }))
    }

    terminate() {}
  }
  window.Worker = window.IFrameWorker
}
