/* Hands each new run to every view. */
const receive = () => {
  if (props.value) glassformer.setTrace(JSON.parse(props.value));
};
watch("value", receive);
receive();
