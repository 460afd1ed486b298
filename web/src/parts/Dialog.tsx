// A window above the page. The browser's own element keeps the focus in it, gives it back, and closes it with Escape.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface Given {
  title: string;
  close: () => void;
  children: ComponentChildren;
  narrow?: boolean;
  /** Nothing but an answer ends it. */
  must?: boolean;
}

export function Dialog({ title, close, children, narrow, must }: Given) {
  const element = useRef<HTMLDialogElement>(null);
  // With the change of the page, not after the next frame: no key may reach the page below in between, and none is lost at the end.
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog ref={element} class={narrow ? "narrow" : ""} aria-label={title}
      onCancel={(event) => { event.preventDefault(); if (!must) close(); }}
      onClose={() => { if (must && element.current?.isConnected) element.current.showModal(); }}
      onClick={(event) => { if (!must && event.target === element.current) close(); }}>
      <div class="inside">
        <div class="head">
          <h2>{title}</h2>
          {!must && <button type="button" class="close" aria-label="Close" onClick={close}>✕</button>}
        </div>
        {children}
      </div>
    </dialog>
  );
}
