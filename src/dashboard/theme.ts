// The theme of Mantine; what it would write into the page as a style sheet of its own is in theme.css, because nothing inline is allowed.
import { createTheme, Modal } from '@mantine/core';

export const theme = createTheme({
  primaryColor: 'blue',
  defaultRadius: 'md',
  components: {
    Modal: Modal.extend({
      // Locking the scroll writes a style element.
      defaultProps: { lockScroll: false, centered: true },
    }),
  },
});
